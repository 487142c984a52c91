//! A YAML writer that follows yaml.v2: keys are sorted, sequences are not indented under their key, long lines are
//! folded at 80.

use std::{cmp::Ordering, fmt::Write};

use serde_json::{Map, Value};

use super::{Plain, plain};

/// The column after which lines are folded at the next single space.
const WIDTH: usize = 80;
/// Longer keys are written with `? `.
const SIMPLE_KEY: usize = 128;

/// Formats the value as a YAML document.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    match value {
        Value::Object(entries) if !entries.is_empty() => emitter.mapping(entries, 0, true),
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0, true),
        scalar => emitter.scalar(scalar, 2),
    }
    if !emitter.out.ends_with('\n') {
        emitter.out.push('\n');
    }
    emitter.out
}

/// Formats the value as an item of a sequence under a key of the document.
pub(crate) fn to_yaml_item(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    emitter.sequence(std::slice::from_ref(value), 0, true);
    emitter.line(0);
    emitter.out
}

struct Emitter {
    out: String,
    /// The number of characters since the last line break.
    column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

impl Emitter {
    /// Writes a mapping. `inline`: the first entry continues the current line.
    fn mapping(&mut self, entries: &Map<String, Value>, indent: usize, inline: bool) {
        let mut sorted: Vec<_> = entries.iter().collect();
        sorted.sort_by(|left, right| compare_keys(left.0, right.0));
        for (index, (key, value)) in sorted.into_iter().enumerate() {
            if index > 0 || !inline {
                self.line(indent);
            }
            let simple = key.len() <= SIMPLE_KEY && !key.contains(is_break);
            if simple {
                self.text(key, style(key, true), indent, false);
                self.put(":");
                self.value(value, indent);
            } else {
                self.put("? ");
                self.text(key, style(key, false), indent + 2, true);
                self.line(indent);
                self.put(":");
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        self.put(" ");
                        self.mapping(inner, indent + 2, true);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        self.put(" ");
                        self.sequence(inner, indent + 2, true);
                    }
                    other => self.value(other, indent),
                }
            }
        }
    }

    /// Writes the value after a key and its colon.
    fn value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(entries) if !entries.is_empty() => self.mapping(entries, indent + 2, false),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, false),
            scalar => {
                self.put(" ");
                self.scalar(scalar, indent + 2);
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, inline: bool) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 || !inline {
                self.line(indent);
            }
            self.put("- ");
            match item {
                Value::Object(entries) if !entries.is_empty() => self.mapping(entries, indent + 2, true),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent + 2, true),
                scalar => self.scalar(scalar, indent + 2),
            }
        }
    }

    /// Writes a scalar or an empty container; `indent` is that of continuation lines.
    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(flag) => self.put(if *flag { "true" } else { "false" }),
            Value::Number(number) => {
                let text = number.as_f64().filter(|_| number.is_f64()).map_or_else(|| number.to_string(), float);
                self.put(&text);
            }
            Value::String(text) => self.text(text, style(text, false), indent, true),
            Value::Array(_) => self.put("[]"),
            Value::Object(_) => self.put("{}"),
        }
    }

    fn text(&mut self, text: &str, style: Style, indent: usize, fold: bool) {
        match style {
            Style::Plain => self.folded(text, indent, fold, 0, Self::push),
            Style::Single => {
                self.push('\'');
                self.single(text, indent, fold);
                self.push('\'');
            }
            Style::Double => {
                self.push('"');
                self.double(text, indent, fold);
                self.push('"');
            }
            Style::Literal => self.literal(text, indent),
        }
    }

    /// Writes text whose single spaces may become line breaks. A non-zero `edge` preserves the first and last
    /// characters.
    fn folded(&mut self, text: &str, indent: usize, fold: bool, edge: usize, mut write: impl FnMut(&mut Self, char)) {
        let (mut spaces, mut broken) = (false, false);
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next_is_space = characters.peek().is_some_and(|(_, next)| *next == ' ');
            let inside = edge == 0 || at > 0 && at + 1 < text.len();
            if character == ' ' {
                if fold && !spaces && self.column > WIDTH && inside && !next_is_space {
                    self.line(indent);
                } else {
                    self.push(' ');
                }
                spaces = true;
            } else if is_break(character) {
                self.out.push(character);
                self.column = 0;
                broken = true;
            } else {
                if broken {
                    self.pad(indent);
                }
                write(self, character);
                (spaces, broken) = (false, false);
            }
        }
    }

    /// Writes single-quoted text. Only Unicode line breaks occur here; they are written literally, followed by the
    /// indentation.
    fn single(&mut self, text: &str, indent: usize, fold: bool) {
        self.folded(text, indent, fold, 1, |emitter, character| {
            if character == '\'' {
                emitter.push('\'');
            }
            emitter.push(character);
        });
    }

    fn double(&mut self, text: &str, indent: usize, fold: bool) {
        let mut spaces = false;
        // If a text starts with a byte order mark, yaml.v2 treats every character as one.
        let escape_all = text.starts_with('\u{feff}');
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if character == ' ' && !escape_all {
                if fold && !spaces && self.column > WIDTH && at > 0 && at + 1 < text.len() {
                    self.line(indent);
                    if characters.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.push('\\');
                    }
                } else {
                    self.push(' ');
                }
                spaces = true;
                continue;
            }
            spaces = false;
            let escape = match character {
                '\0' => "\\0",
                '\u{7}' => "\\a",
                '\u{8}' => "\\b",
                '\t' => "\\t",
                '\n' => "\\n",
                '\u{b}' => "\\v",
                '\u{c}' => "\\f",
                '\r' => "\\r",
                '\u{1b}' => "\\e",
                '"' => "\\\"",
                '\\' => "\\\\",
                '\u{85}' => "\\N",
                '\u{2028}' => "\\L",
                '\u{2029}' => "\\P",
                _ if is_printable(character) && !escape_all => {
                    self.push(character);
                    continue;
                }
                _ => {
                    let code = u32::from(character);
                    let escaped = match code {
                        0..=0xFF => format!("\\x{code:02X}"),
                        0x100..=0xFFFF => format!("\\u{code:04X}"),
                        _ => format!("\\U{code:08X}"),
                    };
                    self.put(&escaped);
                    continue;
                }
            };
            self.put(escape);
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with([' ', '\n']) {
            self.put("2");
        }
        if !text.ends_with('\n') {
            self.put("-");
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put("+");
        }
        self.push('\n');
        let mut at_start = true;
        for character in text.chars() {
            if character == '\n' {
                self.push('\n');
                at_start = true;
            } else {
                if at_start {
                    self.pad(indent);
                }
                self.push(character);
                at_start = false;
            }
        }
    }

    /// Starts a line, unless the current line is empty.
    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.push('\n');
        }
        self.pad(indent);
    }

    fn pad(&mut self, indent: usize) {
        for _ in 0..indent {
            self.push(' ');
        }
    }

    fn put(&mut self, text: &str) {
        text.chars().for_each(|character| self.push(character));
    }

    fn push(&mut self, character: char) {
        self.out.push(character);
        self.column = if character == '\n' { 0 } else { self.column + 1 };
    }
}

/// Returns the style that yaml.v2's encoder requests, or the nearest one that its emitter supports.
fn style(text: &str, key: bool) -> Style {
    let facts = Facts::of(text);
    if text.contains('\n') {
        return if facts.block && !key { Style::Literal } else { Style::Double };
    }
    if !matches!(plain(text), Plain::Text | Plain::Merge) || is_timestamp(text) || is_base60(text) {
        return Style::Double;
    }
    match facts {
        Facts { plain: true, .. } => Style::Plain,
        Facts { single: true, .. } => Style::Single,
        _ => Style::Double,
    }
}

/// The styles that can represent a text.
struct Facts {
    plain: bool,
    single: bool,
    block: bool,
}

impl Facts {
    fn of(text: &str) -> Self {
        let mut facts = Self { plain: true, single: true, block: true };
        if text.starts_with("---") || text.starts_with("...") {
            facts.plain = false;
        }
        let characters: Vec<char> = text.chars().collect();
        let blank = |at: usize| characters.get(at).is_none_or(|next| matches!(next, ' ' | '\t'));
        let mut before = '\0';
        for (at, character) in characters.iter().copied().enumerate() {
            let preceded = at == 0 || matches!(before, ' ' | '\t' | '\0') || is_break(before);
            let indicator = match character {
                '#' if at > 0 => preceded,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    at == 0
                }
                '?' | '-' => at == 0 && blank(at + 1),
                ':' => blank(at + 1),
                _ => false,
            };
            let edge = at == 0 || at + 1 == characters.len();
            let breaks = is_break(character);
            if indicator || breaks || character == ' ' && edge {
                facts.plain = false;
            }
            if character == ' ' && at + 1 == characters.len() {
                facts.block = false;
            }
            if character == ' ' && is_break(before) {
                facts.plain = false;
                facts.single = false;
            }
            if breaks && before == ' ' || !is_printable(character) {
                facts = Self { plain: false, single: false, block: false };
            }
            before = character;
        }
        facts
    }
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Reports whether yaml.v2 would parse the text as a time.
fn is_timestamp(text: &str) -> bool {
    let number =
        |text: &str, max: usize| (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let in_range =
        |text: &str, range: std::ops::RangeInclusive<u32>| text.parse().is_ok_and(|value| range.contains(&value));
    let Some((year, rest)) = text.split_once('-') else { return false };
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day_end = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, rest) = rest.split_at(day_end);
    let date = year.len() == 4 && number(year, 4) && number(month, 2) && number(day, 2);
    if !date || !in_range(month, 1..=12) || !in_range(day, 1..=31) {
        return false;
    }
    let zoned = match rest.chars().next() {
        None => return true,
        Some('T' | 't') => true,
        Some(' ') => false,
        Some(_) => return false,
    };
    let rest = &rest[1..];
    let end = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(end);
    let mut parts = clock.splitn(3, ':');
    let (Some(hour), Some(minute), Some(second)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (second, fraction) =
        second.split_once(['.', ',']).map_or((second, None), |(second, rest)| (second, Some(rest)));
    let clock = number(hour, 2)
        && number(minute, 2)
        && number(second, 2)
        && in_range(hour, 0..=23)
        && in_range(minute, 0..=59)
        && in_range(second, 0..=59)
        && fraction.is_none_or(|digits| number(digits, 100));
    let zone = match zone.as_bytes() {
        [] => !zoned,
        [b'Z'] if zoned => true,
        [b'+' | b'-', a, b, b':', c, d] if zoned => [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()),
        _ => false,
    };
    clock && zone
}

/// Matches `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`. Parsers no longer read these as numbers, but yaml.v2 still
/// quotes them.
fn is_base60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest = parts.peekable();
    rest.peek().is_some()
        && first.starts_with(|digit: char| digit.is_ascii_digit())
        && first.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit() || byte == b'_')
        && rest.all(|part| match part.as_bytes() {
            [digit] | [b'0'..=b'5', digit] => digit.is_ascii_digit(),
            _ => false,
        })
}

/// Formats a float like `%g` with the shortest digits.
fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return format!("{number}");
    }
    let mut text = format!("{digits}e{}", if exponent < 0 { '-' } else { '+' });
    let _ = write!(text, "{:02}", exponent.abs());
    text
}

/// Compares keys in yaml.v2's order: letters after all other characters, runs of digits by their value.
fn compare_keys(left: &str, right: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let digit = |character: &char| character.is_ascii_digit();
    let mut start = 0i64;
    if a[at] == '0' || b[at] == '0' {
        let digits_before = a[..at].iter().rev().take_while(|character| digit(character));
        if digits_before.clone().any(|character| *character != '0') {
            start = 1;
        }
    }
    let run = |text: &[char]| {
        let mut number = start;
        let mut end = at;
        while let Some(value) = text.get(end).and_then(|character| character.to_digit(10)) {
            number = number.wrapping_mul(10).wrapping_add(i64::from(value));
            end += 1;
        }
        (number, end)
    };
    run(&a).cmp(&run(&b)).then_with(|| a[at].cmp(&b[at]))
}
