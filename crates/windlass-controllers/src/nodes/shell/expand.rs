//! Expansion of words: variables, substitutions and arithmetic.

use super::{
    machine::{LONGEST_TEXT, Machine, Stop},
    syntax::{Part, Word},
};

/// The words that result from the expansion of one word.
#[derive(Debug, Default)]
struct Split {
    done: Vec<String>,
    current: Option<String>,
}

impl Split {
    fn append(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    /// Appends unquoted text: blanks end words.
    fn split(&mut self, text: &str) {
        for (index, part) in text.split([' ', '\t', '\n']).enumerate() {
            if index > 0 {
                self.done.extend(self.current.take());
            }
            if !part.is_empty() {
                self.append(part);
            }
        }
    }
}

impl Machine<'_> {
    pub(super) fn words(&mut self, words: &[Word]) -> Result<Vec<String>, Stop> {
        let mut expanded = Vec::new();
        for word in words {
            let mut split = Split::default();
            self.expand(word, &mut split, true)?;
            expanded.extend(split.done);
            expanded.extend(split.current);
        }
        Ok(expanded)
    }

    /// Expands a word to one string.
    pub(super) fn joined(&mut self, word: &Word) -> Result<String, Stop> {
        let mut split = Split::default();
        self.expand(word, &mut split, false)?;
        Ok(split.current.unwrap_or_default())
    }

    fn expand(&mut self, word: &Word, into: &mut Split, splits: bool) -> Result<(), Stop> {
        for part in word {
            let (mut text, quoted) = match part {
                Part::Text(text) => (text.clone(), true),
                Part::Variable { name, quoted, .. } if name == "@" && *quoted && splits => {
                    let arguments = self.arguments.get(1..).unwrap_or_default().to_vec();
                    for (index, argument) in arguments.iter().enumerate() {
                        self.pay(argument.len())?;
                        if index > 0 {
                            into.done.extend(into.current.take());
                        }
                        into.append(argument);
                    }
                    continue;
                }
                Part::Variable { name, default, quoted } => {
                    let mut value = self.value(name);
                    if value.is_empty()
                        && let Some(default) = default
                    {
                        value = self.joined(default)?;
                    }
                    (value, *quoted)
                }
                Part::Substitution { list, quoted } => {
                    let kept = std::mem::take(&mut self.output);
                    let outcome = self.subshell(|machine| machine.list(list));
                    let mut written = std::mem::replace(&mut self.output, kept);
                    self.status = outcome?;
                    written.truncate(written.trim_end_matches('\n').len());
                    (written, *quoted)
                }
                Part::Arithmetic(word) => {
                    let expression = self.joined(word)?;
                    // The shell exits on an expression that it cannot evaluate.
                    let value = Arithmetic::evaluate(&expression, self).ok_or(Stop::Exit(2))?;
                    (value.to_string(), false)
                }
            };
            self.pay(text.len())?;
            let length = into.current.as_ref().map_or(0, String::len);
            if length + text.len() > LONGEST_TEXT {
                text.clear();
            }
            if quoted || !splits { into.append(&text) } else { into.split(&text) }
        }
        Ok(())
    }

    pub(super) fn value(&mut self, name: &str) -> String {
        match name {
            "?" => self.status.to_string(),
            "#" => self.arguments.len().saturating_sub(1).to_string(),
            "@" | "*" => self.arguments.get(1..).unwrap_or_default().join(" "),
            "$" => "1".to_owned(),
            "RANDOM" => self.random().to_string(),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().ok().and_then(|number: usize| self.arguments.get(number)).cloned().unwrap_or_default()
            }
            name => self.variables.get(name).cloned().unwrap_or_default(),
        }
    }
}

/// An expression between `$((` and `))`.
struct Arithmetic<'a, 'm, 's> {
    rest: &'a str,
    machine: &'m mut Machine<'s>,
    depth: u32,
}

/// The binary operators by precedence; longer ones first.
const OPERATORS: [&[&str]; 6] =
    [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

impl Arithmetic<'_, '_, '_> {
    fn evaluate(expression: &str, machine: &mut Machine<'_>) -> Option<i64> {
        let mut arithmetic = Arithmetic { rest: expression, machine, depth: 0 };
        let value = arithmetic.level(0)?;
        arithmetic.rest.trim().is_empty().then_some(value)
    }

    fn level(&mut self, level: usize) -> Option<i64> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            self.rest = self.rest.trim_start();
            let Some(operator) = operators.iter().find(|operator| self.rest.starts_with(**operator)) else {
                return Some(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.level(level + 1)?;
            left = calculate(left, operator, right)?;
        }
    }

    fn unary(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        self.rest = self.rest.trim_start();
        let value = match self.rest.chars().next()? {
            '-' => {
                self.rest = &self.rest[1..];
                self.unary()?.checked_neg()
            }
            '!' => {
                self.rest = &self.rest[1..];
                self.unary().map(|value| i64::from(value == 0))
            }
            '(' => {
                self.rest = &self.rest[1..];
                let value = self.level(0)?;
                self.rest = self.rest.trim_start().strip_prefix(')')?;
                Some(value)
            }
            _ => {
                let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                if word.starts_with(|c: char| c.is_ascii_digit()) {
                    word.parse().ok()
                } else if word.is_empty() {
                    None
                } else {
                    let value = self.machine.value(word);
                    if value.is_empty() { Some(0) } else { value.trim().parse().ok() }
                }
            }
        };
        self.depth -= 1;
        value
    }
}

/// Applies an operator. Returns `None` if the result is undefined, as for a division by zero.
pub(super) fn calculate(left: i64, operator: &str, right: i64) -> Option<i64> {
    match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        "==" | "=" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        "<=" => Some(i64::from(left <= right)),
        ">=" => Some(i64::from(left >= right)),
        "<" => Some(i64::from(left < right)),
        ">" => Some(i64::from(left > right)),
        "&&" => Some(i64::from(left != 0 && right != 0)),
        "||" => Some(i64::from(left != 0 || right != 0)),
        _ => None,
    }
}
