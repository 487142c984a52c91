//! Arithmetic expressions over the variables of a workload.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de};

/// The values of the variables.
pub(crate) type Variables = BTreeMap<String, f64>;

/// An expression such as `min(pods / 4, 250)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Variable(String),
    Negative(Box<Self>),
    Binary(char, Box<Self>, Box<Self>),
    Call(Function, Vec<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Min,
    Max,
    Floor,
    Ceil,
}

/// The functions with their names and numbers of arguments.
const FUNCTIONS: [(&str, Function, usize); 4] =
    [("min", Function::Min, 2), ("max", Function::Max, 2), ("floor", Function::Floor, 1), ("ceil", Function::Ceil, 1)];

/// The maximum nesting of an expression.
const DEPTH: usize = 32;

impl Expression {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text, depth: 0 };
        let parsed = parser.sum().and_then(|root| match parser.peek() {
            None => Ok(root),
            Some(unexpected) => Err(format!("unexpected {unexpected:?}")),
        });
        match parsed {
            Ok(root) => Ok(Self { text: text.to_owned(), root }),
            Err(reason) => Err(format!("invalid expression {text:?}: {reason}")),
        }
    }

    pub(crate) fn constant(number: f64) -> Self {
        Self { text: number.to_string(), root: Node::Number(number) }
    }

    /// Returns the value. The error names an unknown variable, or a value that is not finite.
    pub(crate) fn evaluate(&self, variables: &Variables) -> Result<f64, String> {
        let value = self.root.evaluate(variables)?;
        if value.is_finite() { Ok(value) } else { Err(format!("{:?} is not a finite number", self.text)) }
    }
}

impl Node {
    fn evaluate(&self, variables: &Variables) -> Result<f64, String> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::Variable(name) => *variables.get(name).ok_or_else(|| {
                let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                format!("unknown variable {name:?}; the variables are {}", known.join(", "))
            })?,
            Self::Negative(node) => -node.evaluate(variables)?,
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.evaluate(variables)?, right.evaluate(variables)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '%' => left % right,
                    _ => left / right,
                }
            }
            Self::Call(function, arguments) => {
                let values: Result<Vec<f64>, String> =
                    arguments.iter().map(|argument| argument.evaluate(variables)).collect();
                let values = values?;
                match (function, values.as_slice()) {
                    (Function::Min, [left, right]) => left.min(*right),
                    (Function::Max, [left, right]) => left.max(*right),
                    (Function::Floor, [value]) => value.floor(),
                    (_, [value]) => value.ceil(),
                    _ => f64::NAN,
                }
            }
        })
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    /// Takes the next character if it is one of these.
    fn take(&mut self, of: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| of.contains(next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.take(&[wanted]).map(drop).ok_or_else(|| match self.peek() {
            Some(found) => format!("expected {wanted:?}, found {found:?}"),
            None => format!("expected {wanted:?} at the end"),
        })
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("too deeply nested".to_owned());
        }
        let mut node = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            node = Node::Binary(operator, Box::new(node), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.factor()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            node = Node::Binary(operator, Box::new(node), Box::new(self.factor()?));
        }
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        if self.take(&['-']).is_some() {
            // A chain of signs is no nesting of parentheses, but as deep.
            self.depth += 1;
            if self.depth > DEPTH {
                return Err("too deeply nested".to_owned());
            }
            let node = Node::Negative(Box::new(self.factor()?));
            self.depth -= 1;
            return Ok(node);
        }
        if self.take(&['(']).is_some() {
            let node = self.sum()?;
            self.expect(')')?;
            return Ok(node);
        }
        let Some(first) = self.peek() else { return Err("a value is missing at the end".to_owned()) };
        let numeric = first.is_ascii_digit() || first == '.';
        let belongs = |c: char| if numeric { c.is_ascii_digit() || c == '.' } else { c.is_alphanumeric() || c == '_' };
        let end = self.rest.find(|c: char| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(format!("unexpected {first:?}"));
        }
        self.rest = rest;
        if numeric {
            return word.parse().map(Node::Number).map_err(|_| format!("{word:?} is not a number"));
        }
        if self.take(&['(']).is_none() {
            return Ok(Node::Variable(word.to_owned()));
        }
        let Some((_, function, count)) = FUNCTIONS.iter().find(|(name, ..)| *name == word) else {
            return Err(format!("unknown function {word:?}; the functions are min, max, floor and ceil"));
        };
        let mut arguments = vec![self.sum()?];
        while self.take(&[',']).is_some() {
            arguments.push(self.sum()?);
        }
        self.expect(')')?;
        if arguments.len() != *count {
            return Err(format!("{word} takes {count} arguments, not {}", arguments.len()));
        }
        Ok(Node::Call(*function, arguments))
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Expression {
    /// Decodes a number, or a text with an expression.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Expression;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or an expression")
            }

            #[expect(clippy::cast_precision_loss, reason = "as in every calculation of a workload")]
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Expression::constant(number as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "as in every calculation of a workload")]
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Expression::constant(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Expression::constant(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Expression::parse(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let variables = [("pods".to_owned(), 3000.0), ("zero".to_owned(), 0.0)].into();
        Expression::parse(text)?.evaluate(&variables)
    }

    #[test]
    fn operators_have_their_usual_precedence() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("7 - 2 - 1", 4.0),
            ("-2 * -3", 6.0),
            ("floor(pods / 4 / 250)", 3.0),
            ("max(1, min(pods, 7.5)) % 2", 1.5),
            ("ceil(.2)", 1.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_name_the_cause() {
        for (text, expected) in [
            ("1 +", "a value is missing at the end"),
            ("1 2", "unexpected '2'"),
            ("(1", "expected ')' at the end"),
            ("max(1)", "max takes 2 arguments, not 1"),
            ("sqrt(4)", "unknown function \"sqrt\""),
            ("podz", "unknown variable \"podz\"; the variables are pods, zero"),
            ("1 / zero", "not a finite number"),
            ("1.2.3", "\"1.2.3\" is not a number"),
            ("#", "unexpected '#'"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        for deep in ["(".repeat(100_000), "-".repeat(100_000)] {
            assert!(value(&deep).unwrap_err().contains("too deeply nested"));
        }
    }
}
