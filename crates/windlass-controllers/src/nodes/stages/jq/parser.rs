//! Parses queries.

use serde_json::Value;

use super::{Comparison, Expression, Function, Logic};

/// The maximum nesting of a query.
const MOST_NESTED: usize = 32;

/// The functions, and the number of arguments that each may have.
const FUNCTIONS: [(&str, Function, &[usize]); 11] = [
    ("select", Function::Select, &[1]),
    ("map", Function::Map, &[1]),
    ("any", Function::Any, &[0, 1]),
    ("all", Function::All, &[0, 1]),
    ("has", Function::Has, &[1]),
    ("not", Function::Not, &[0]),
    ("length", Function::Length, &[0]),
    ("tostring", Function::ToString, &[0]),
    ("startswith", Function::StartsWith, &[1]),
    ("endswith", Function::EndsWith, &[1]),
    ("empty", Function::Empty, &[0]),
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Parses a query.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let expression = parser.pipe()?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    Ok(expression)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Takes a word such as `and`.
    fn take_word(&mut self, word: &str) -> bool {
        self.peek();
        let is_next = name(self.rest()) == word;
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("expected {token:?} at {}", self.position())) }
    }

    fn position(&mut self) -> String {
        match self.peek() {
            Some(character) => format!("{character:?}, character {}", self.text[..self.at].chars().count() + 1),
            None => "the end of the query".to_owned(),
        }
    }

    fn unexpected(&mut self) -> String {
        format!("unsupported or unexpected syntax at {}", self.position())
    }

    fn pipe(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(format!("the query has more than {MOST_NESTED} nested parts"));
        }
        let mut expression = self.alternative()?;
        while !self.rest().trim_start().starts_with("||") && self.take("|") {
            expression = Expression::Pipe(Box::new(expression), Box::new(self.alternative()?));
        }
        self.depth -= 1;
        Ok(expression)
    }

    fn alternative(&mut self) -> Result<Expression, String> {
        let first = self.or()?;
        if self.take("//") {
            self.depth += 1;
            if self.depth > MOST_NESTED {
                return Err(format!("the query has more than {MOST_NESTED} nested parts"));
            }
            let second = self.alternative()?;
            self.depth -= 1;
            return Ok(Expression::Alternative(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut expression = self.and()?;
        while self.take_word("or") {
            expression = Expression::Logic(Box::new(expression), Logic::Or, Box::new(self.and()?));
        }
        Ok(expression)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut expression = self.comparison()?;
        while self.take_word("and") {
            expression = Expression::Logic(Box::new(expression), Logic::And, Box::new(self.comparison()?));
        }
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let first = self.postfix()?;
        let found = COMPARISONS.into_iter().find(|(token, _)| self.take(token));
        let Some((_, comparison)) = found else { return Ok(first) };
        Ok(Expression::Compare(Box::new(first), comparison, Box::new(self.postfix()?)))
    }

    fn postfix(&mut self) -> Result<Expression, String> {
        let mut expression = self.term()?;
        for _ in 0..MOST_NESTED {
            expression = if self.take("?") {
                Expression::Try(Box::new(expression))
            } else if self.take("[") {
                self.suffix(expression)?
            } else if self.take(".") {
                if self.take("[") { self.suffix(expression)? } else { self.field(expression)? }
            } else {
                return Ok(expression);
            };
        }
        Err(format!("the path has more than {MOST_NESTED} parts"))
    }

    /// Parses a suffix after `[`.
    fn suffix(&mut self, of: Expression) -> Result<Expression, String> {
        let of = Box::new(of);
        if self.take("]") {
            return Ok(Expression::Each(of));
        }
        let expression = match self.peek() {
            Some('"') => Expression::Field(of, self.string()?),
            Some('-' | '0'..='9') => {
                let number = self.number()?;
                let index = number.as_i64().ok_or_else(|| format!("{number} is not an index"))?;
                Expression::Index(of, index)
            }
            _ => return Err(self.unexpected()),
        };
        self.expect("]")?;
        Ok(expression)
    }

    /// Parses a field after `.`.
    fn field(&mut self, of: Expression) -> Result<Expression, String> {
        if self.rest().starts_with('"') {
            return Ok(Expression::Field(Box::new(of), self.string()?));
        }
        let name = name(self.rest());
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.at += name.len();
        Ok(Expression::Field(Box::new(of), name.to_owned()))
    }

    fn term(&mut self) -> Result<Expression, String> {
        match self.peek() {
            Some('.') if self.rest().starts_with("..") => Err(self.unexpected()),
            Some('.') => {
                self.at += 1;
                let is_field =
                    self.rest().starts_with(|next: char| next == '"' || next == '_' || next.is_ascii_alphabetic());
                if is_field { self.field(Expression::Identity) } else { Ok(Expression::Identity) }
            }
            Some('(') => {
                self.at += 1;
                let expression = self.pipe()?;
                self.expect(")")?;
                Ok(expression)
            }
            Some('[') => {
                self.at += 1;
                let expression = self.pipe()?;
                self.expect("]")?;
                Ok(Expression::Collect(Box::new(expression)))
            }
            Some('"') => Ok(Expression::Literal(Value::String(self.string()?))),
            Some('-' | '0'..='9') => Ok(Expression::Literal(self.number()?)),
            _ => self.call(),
        }
    }

    fn call(&mut self) -> Result<Expression, String> {
        let word = name(self.rest());
        match word {
            "" => return Err(self.unexpected()),
            "true" | "false" | "null" => {
                self.at += word.len();
                return Ok(Expression::Literal(match word {
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => Value::Null,
                }));
            }
            _ => {}
        }
        let known = FUNCTIONS.into_iter().find(|(known, ..)| *known == word);
        let Some((_, function, counts)) = known else { return Err(format!("the function {word:?} is not supported")) };
        self.at += word.len();
        let argument = if self.take("(") {
            let argument = self.pipe()?;
            self.expect(")")?;
            Some(Box::new(argument))
        } else {
            None
        };
        if !counts.contains(&usize::from(argument.is_some())) {
            let needed = if argument.is_some() { "has no" } else { "needs an" };
            return Err(format!("the function {word:?} {needed} argument"));
        }
        Ok(Expression::Call(function, argument))
    }

    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, character)| {
            let is_end = *character == '"' && !is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
            is_end
        });
        let Some((end, _)) = end else { return Err("a string is not closed".to_owned()) };
        let text = &rest[..=end];
        if text.contains("\\(") {
            return Err("interpolation in strings is not supported".to_owned());
        }
        self.at += text.len();
        serde_json::from_str(text).map_err(|error| format!("the string {text} is invalid: {error}"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let is_part = |(index, character): (usize, char)| {
            character.is_ascii_digit() || matches!(character, '.' | 'e' | 'E') || (index == 0 && character == '-')
        };
        let end = rest.char_indices().find(|at| !is_part(*at)).map_or(rest.len(), |(index, _)| index);
        self.at += end;
        serde_json::from_str(&rest[..end]).map_err(|_| format!("{:?} is not a number", &rest[..end]))
    }
}

/// Returns the word at the start of `text`.
fn name(text: &str) -> &str {
    let end = text.find(|next: char| !(next == '_' || next.is_ascii_alphanumeric())).unwrap_or(text.len());
    &text[..end]
}
