//! The shell grammar: parses scripts into trees.

use std::sync::Arc;

/// The maximum nesting depth of commands.
const DEEPEST: usize = 32;

/// Commands that run one after the other.
pub(super) type List = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Connector, Pipeline)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connector {
    And,
    Or,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple { assignments: Vec<(String, Word)>, words: Vec<Word>, redirects: Vec<Redirect> },
    If { branches: Vec<(List, List)>, otherwise: List },
    Loop { until: bool, condition: List, body: List },
    For { name: String, words: Option<Vec<Word>>, body: List },
    Group(List),
    Subshell(List),
    Function { name: String, body: Arc<Self> },
}

/// A redirection of standard input or output; those of other descriptors are dropped.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) path: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectKind {
    Read,
    Write,
    Append,
}

pub(super) type Word = Vec<Part>;

/// A part of a word. Quoted parts are not split into words.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Variable { name: String, default: Option<Word>, quoted: bool },
    Substitution { list: List, quoted: bool },
    Arithmetic(Word),
}

/// Parses a script. Returns `None` if it is not supported.
pub(super) fn parse(script: &str) -> Option<List> {
    parse_at(script, 0)
}

fn parse_at(script: &str, depth: usize) -> Option<List> {
    let mut parser = Parser { text: script.chars().collect(), at: 0, depth };
    let list = parser.list(&[])?;
    (parser.at == parser.text.len()).then_some(list)
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.text.get(self.at + index) == Some(&c))
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.starts_with("\\\n") => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return;
            }
            self.at += 1;
        }
    }

    /// Returns the next reserved word without consuming it.
    fn keyword(&self) -> Option<&'static str> {
        const RESERVED: [&str; 14] =
            ["if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "in", "{", "}"];
        let ends = |length: usize| self.text.get(self.at + length).is_none_or(|c| " \t\r\n;&|()".contains(*c));
        RESERVED.into_iter().find(|word| self.starts_with(word) && ends(word.len()))
    }

    fn expect(&mut self, keyword: &str) -> Option<()> {
        self.skip_lines();
        (self.keyword() == Some(keyword)).then(|| self.at += keyword.len())
    }

    /// Parses commands up to one of the keywords, a closing bracket or the end.
    fn list(&mut self, ends: &[&str]) -> Option<List> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let mut list = List::new();
        loop {
            self.skip_lines();
            let ended = self.peek().is_none_or(|c| c == ')') || self.keyword().is_some_and(|word| ends.contains(&word));
            if ended {
                break;
            }
            list.push(self.and_or()?);
            self.skip_blanks();
            match self.peek() {
                Some(';') if !self.starts_with(";;") => self.at += 1,
                Some('\n' | ')') | None => {}
                Some(_) if self.keyword().is_some_and(|word| ends.contains(&word)) => {}
                Some(_) => return None,
            }
        }
        self.depth -= 1;
        Some(list)
    }

    /// Parses at least one command.
    fn some(&mut self, ends: &[&str]) -> Option<List> {
        self.list(ends).filter(|list| !list.is_empty())
    }

    fn and_or(&mut self) -> Option<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let connector = if self.take("&&") {
                Connector::And
            } else if self.take("||") {
                Connector::Or
            } else {
                return Some(AndOr { first, rest });
            };
            self.skip_lines();
            rest.push((connector, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Option<Pipeline> {
        self.skip_blanks();
        let negated = self.starts_with("! ");
        if negated {
            self.at += 2;
        }
        let mut commands = vec![self.command()?];
        loop {
            self.skip_blanks();
            if self.peek() != Some('|') || self.starts_with("||") {
                return Some(Pipeline { negated, commands });
            }
            self.at += 1;
            self.skip_lines();
            commands.push(self.command()?);
        }
    }

    fn command(&mut self) -> Option<Command> {
        self.skip_blanks();
        if self.take("(") {
            let list = self.some(&[])?;
            return self.take(")").then_some(Command::Subshell(list));
        }
        let Some(keyword) = self.keyword() else { return self.simple() };
        self.at += keyword.len();
        match keyword {
            "if" => self.conditional(),
            "while" | "until" => {
                let condition = self.some(&["do"])?;
                let body = self.body()?;
                Some(Command::Loop { until: keyword == "until", condition, body })
            }
            "for" => {
                self.skip_blanks();
                let name = self.name();
                self.skip_lines();
                let mut words = None;
                if self.keyword() == Some("in") {
                    self.at += 2;
                    words = Some(self.words()?);
                }
                self.skip_blanks();
                self.take(";");
                let body = self.body()?;
                (!name.is_empty()).then_some(Command::For { name, words, body })
            }
            "{" => {
                let list = self.some(&["}"])?;
                self.expect("}")?;
                Some(Command::Group(list))
            }
            _ => None,
        }
    }

    fn conditional(&mut self) -> Option<Command> {
        let mut branches = Vec::new();
        let mut otherwise = List::new();
        loop {
            let condition = self.some(&["then"])?;
            self.expect("then")?;
            branches.push((condition, self.some(&["elif", "else", "fi"])?));
            let keyword = self.keyword()?;
            self.at += keyword.len();
            match keyword {
                "elif" => continue,
                "else" => {
                    otherwise = self.some(&["fi"])?;
                    self.expect("fi")?;
                }
                _ => {}
            }
            return Some(Command::If { branches, otherwise });
        }
    }

    fn body(&mut self) -> Option<List> {
        self.expect("do")?;
        let body = self.some(&["done"])?;
        self.expect("done")?;
        Some(body)
    }

    fn words(&mut self) -> Option<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.word()? {
                word if word.is_empty() => return Some(words),
                word => words.push(word),
            }
        }
    }

    fn simple(&mut self) -> Option<Command> {
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.extend(redirect);
                continue;
            }
            if words.is_empty()
                && let Some(name) = self.assigned()
            {
                assignments.push((name, self.word()?));
                continue;
            }
            let start = self.at;
            let word = self.word()?;
            if word.is_empty() {
                break;
            }
            let is_name = self.text[start..self.at].iter().all(|c| is_in_name(*c));
            if words.is_empty() && assignments.is_empty() && is_name && self.take("()") {
                let name = self.text[start..self.at - 2].iter().collect();
                self.skip_lines();
                // A body is in brackets, so that nesting is counted.
                if self.peek() != Some('(') && self.keyword() != Some("{") {
                    return None;
                }
                return Some(Command::Function { name, body: Arc::new(self.command()?) });
            }
            words.push(word);
        }
        let is_empty = assignments.is_empty() && words.is_empty() && redirects.is_empty();
        (!is_empty).then_some(Command::Simple { assignments, words, redirects })
    }

    /// Parses `NAME=`, if it comes next.
    fn assigned(&mut self) -> Option<String> {
        let start = self.at;
        let name = self.name();
        if !name.is_empty() && self.take("=") {
            return Some(name);
        }
        self.at = start;
        None
    }

    /// Parses a redirection. The outer `None` is an error; the inner one is a redirection without effect.
    #[allow(clippy::option_option, reason = "an error, no redirection, or one without effect")]
    fn redirect(&mut self) -> Option<Option<Option<Redirect>>> {
        let start = self.at;
        let descriptor = self.peek().filter(char::is_ascii_digit);
        if descriptor.is_some() {
            self.at += 1;
        }
        let both = descriptor.is_none() && self.take("&>");
        let kind = if both {
            RedirectKind::Write
        } else if self.starts_with("<<") {
            return None;
        } else if self.take(">>") {
            RedirectKind::Append
        } else if self.take(">") {
            RedirectKind::Write
        } else if self.take("<") {
            RedirectKind::Read
        } else {
            self.at = start;
            return Some(None);
        };
        self.take("&");
        self.skip_blanks();
        let path = self.word().filter(|word| !word.is_empty())?;
        let duplicates = self.text[start..self.at].contains(&'&') && !both;
        let matters = !duplicates && descriptor.is_none_or(|descriptor| descriptor < '2');
        Some(Some(matters.then_some(Redirect { kind, path })))
    }

    fn name(&mut self) -> String {
        let start = self.at;
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return String::new();
        }
        while self.peek().is_some_and(is_in_name) {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    /// Parses a word; empty if none comes next.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word::new();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    flush(&mut word, &mut text);
                    self.at += 2;
                    match self.text.get(self.at - 1) {
                        Some('\n') => {}
                        escaped => word.push(Part::Text(escaped?.to_string())),
                    }
                    continue;
                }
                '\'' => {
                    self.at += 1;
                    let length = self.text[self.at..].iter().position(|c| *c == '\'')?;
                    flush(&mut word, &mut text);
                    word.push(Part::Text(self.text[self.at..self.at + length].iter().collect()));
                    self.at += length + 1;
                    continue;
                }
                '"' => {
                    self.at += 1;
                    flush(&mut word, &mut text);
                    self.quoted(&mut word)?;
                    continue;
                }
                '$' | '`' => {
                    flush(&mut word, &mut text);
                    let part = self.expansion(false)?;
                    word.push(part);
                    continue;
                }
                c => text.push(c),
            }
            self.at += 1;
        }
        flush(&mut word, &mut text);
        Some(word)
    }

    fn quoted(&mut self, word: &mut Word) -> Option<()> {
        let mut text = String::new();
        loop {
            match self.peek()? {
                '"' => {
                    self.at += 1;
                    // An empty quoted word counts as a word, too.
                    word.push(Part::Text(text));
                    return Some(());
                }
                '\\' => {
                    let escaped = *self.text.get(self.at + 1)?;
                    match escaped {
                        '\n' => {}
                        '$' | '`' | '"' | '\\' => text.push(escaped),
                        other => text.extend(['\\', other]),
                    }
                    self.at += 2;
                }
                '$' | '`' => {
                    flush(word, &mut text);
                    let part = self.expansion(true)?;
                    word.push(part);
                }
                c => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// Parses an expansion that starts with `$` or a backtick.
    fn expansion(&mut self, quoted: bool) -> Option<Part> {
        if self.take("`") {
            let length = self.text[self.at..].iter().position(|c| *c == '`')?;
            let inner: String = self.text[self.at..self.at + length].iter().collect();
            self.at += length + 1;
            return Some(Part::Substitution { list: parse_at(&inner, self.depth)?, quoted });
        }
        self.at += 1;
        if self.take("((") {
            return self.arithmetic();
        }
        if self.take("(") {
            let list = self.list(&[])?;
            return self.take(")").then_some(Part::Substitution { list, quoted });
        }
        if self.take("{") {
            let name = self.parameter()?;
            let default = if self.take(":-") || self.take("-") { Some(self.until_brace()?) } else { None };
            return self.take("}").then_some(Part::Variable { name, default, quoted });
        }
        match self.parameter() {
            Some(name) => Some(Part::Variable { name, default: None, quoted }),
            None => Some(Part::Text("$".to_owned())),
        }
    }

    fn parameter(&mut self) -> Option<String> {
        let name = self.name();
        if !name.is_empty() {
            return Some(name);
        }
        let c = self.peek().filter(|c| c.is_ascii_digit() || "?#@*$!-".contains(*c))?;
        self.at += 1;
        Some(c.to_string())
    }

    /// Parses the word after `:-`.
    fn until_brace(&mut self) -> Option<Word> {
        let length = self.text[self.at..].iter().position(|c| *c == '}')?;
        let inner: String = self.text[self.at..self.at + length].iter().collect();
        self.at += length;
        self.inside(&inner)
    }

    fn arithmetic(&mut self) -> Option<Part> {
        let mut open = 0_usize;
        let start = self.at;
        loop {
            match self.peek()? {
                '(' => open += 1,
                ')' if open == 0 => break,
                ')' => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
        let inner: String = self.text[start..self.at].iter().collect();
        self.take("))").then_some(())?;
        self.inside(&inner).map(Part::Arithmetic)
    }

    /// Parses text as in double quotes.
    fn inside(&self, text: &str) -> Option<Word> {
        if self.depth >= DEEPEST || text.contains('"') {
            return None;
        }
        let text = text.chars().chain(std::iter::once('"')).collect();
        let mut parser = Self { text, at: 0, depth: self.depth + 1 };
        let mut word = Word::new();
        parser.quoted(&mut word)?;
        Some(word)
    }
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn flush(word: &mut Word, text: &mut String) {
    if !text.is_empty() {
        word.push(Part::Text(std::mem::take(text)));
    }
}
