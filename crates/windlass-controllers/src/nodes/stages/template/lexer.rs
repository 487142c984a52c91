//! Splits a template into text and the tokens of its actions.

use super::{MOST_TOKENS, SyntaxError};

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// The tokens of an action, and the line of its left delimiter.
    Action(Vec<Token>, usize),
}

/// A token of an action. Spaces matter: `.a .b` are two arguments, and `.a.b` is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `.name`
    Field(String),
    /// `$` or `$name`
    Variable(String),
    /// `.`
    Dot,
    Identifier(String),
    Text(String),
    Integer(i64),
    Float(f64),
    Open,
    Close,
    Pipe,
    Comma,
    /// `:=`
    Declare,
    /// `=`
    Assign,
    Space,
}

/// Splits a template.
pub(super) fn split(text: &str) -> Result<Vec<Part>, SyntaxError> {
    let (mut parts, mut rest, mut line, mut tokens) = (Vec::new(), text, 1, 0);
    let mut trims = false;
    loop {
        let Some(begin) = rest.find("{{") else {
            push_text(&mut parts, rest, trims, false);
            return Ok(parts);
        };
        let (before, action) = (&rest[..begin], &rest[begin + 2..]);
        let trims_left = action.starts_with('-') && action[1..].starts_with(is_space);
        push_text(&mut parts, before, trims, trims_left);
        line += lines(before);
        let action = if trims_left { action[1..].trim_start_matches(is_space) } else { action };
        let skipped = rest.len() - begin - 2 - action.len();
        let first = line;
        line += lines(&rest[begin + 2..begin + 2 + skipped]);
        let (found, after, trims_right) = if let Some(comment) = action.strip_prefix("/*") {
            let (_, after) =
                comment.split_once("*/").ok_or_else(|| SyntaxError::new(first, "the comment is not closed"))?;
            let (after, trims_right) = closing(after)
                .ok_or_else(|| SyntaxError::new(first, "a comment has to end before the closing braces"))?;
            (None, after, trims_right)
        } else {
            let (found, after, trims_right) = scan(action, line)?;
            (Some(found), after, trims_right)
        };
        line += lines(&action[..action.len() - after.len()]);
        if let Some(found) = found {
            tokens += found.len();
            if tokens > MOST_TOKENS {
                return Err(SyntaxError::new(first, format!("the template has more than {MOST_TOKENS} tokens")));
            }
            parts.push(Part::Action(found, first));
        }
        (rest, trims) = (after, trims_right);
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str, trims_start: bool, trims_end: bool) {
    let text = if trims_start { text.trim_start_matches(is_space) } else { text };
    let text = if trims_end { text.trim_end_matches(is_space) } else { text };
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Returns the text after the right delimiter at the start of `text`, and whether it trims spaces.
fn closing(text: &str) -> Option<(&str, bool)> {
    if let Some(after) = text.strip_prefix("}}") {
        return Some((after, false));
    }
    let trimmed = text.trim_start_matches(is_space);
    if trimmed.len() == text.len() {
        return None;
    }
    trimmed.strip_prefix("-}}").map(|after| (after, true))
}

/// Reads the tokens of an action, and returns the text after it.
fn scan(action: &str, first: usize) -> Result<(Vec<Token>, &str, bool), SyntaxError> {
    let mut tokens = Vec::new();
    let mut rest = action;
    loop {
        if let Some((after, trims)) = closing(rest) {
            return Ok((tokens, after, trims));
        }
        let line = first + lines(&action[..action.len() - rest.len()]);
        let Some(character) = rest.chars().next() else {
            return Err(SyntaxError::new(first, "the action is not closed: expected \"}}\""));
        };
        let (token, after) = match character {
            _ if is_space(character) => (Token::Space, rest.trim_start_matches(is_space)),
            '(' => (Token::Open, &rest[1..]),
            ')' => (Token::Close, &rest[1..]),
            '|' => (Token::Pipe, &rest[1..]),
            ',' => (Token::Comma, &rest[1..]),
            ':' if rest.starts_with(":=") => (Token::Declare, &rest[2..]),
            '=' => (Token::Assign, &rest[1..]),
            '"' => quoted(rest, line)?,
            '`' => {
                let (text, after) =
                    rest[1..].split_once('`').ok_or_else(|| SyntaxError::new(line, "a raw string is not closed"))?;
                (Token::Text(text.to_owned()), after)
            }
            '$' => {
                let (name, after) = word(&rest[1..]);
                (Token::Variable(name.to_owned()), after)
            }
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => number(rest, line)?,
            '.' => match word(&rest[1..]) {
                ("", after) => (Token::Dot, after),
                (name, after) => (Token::Field(name.to_owned()), after),
            },
            '0'..='9' | '+' | '-' => number(rest, line)?,
            _ if character == '_' || character.is_alphabetic() => {
                let (name, after) = word(rest);
                (Token::Identifier(name.to_owned()), after)
            }
            other => return Err(SyntaxError::new(line, format!("unexpected character {other:?}"))),
        };
        tokens.push(token);
        rest = after;
    }
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !(character == '_' || character.is_alphanumeric())).unwrap_or(text.len());
    text.split_at(end)
}

fn number(text: &str, line: usize) -> Result<(Token, &str), SyntaxError> {
    let is_part = |(index, character): (usize, char)| {
        character.is_alphanumeric() || matches!(character, '.' | '_') || (index == 0 && matches!(character, '+' | '-'))
    };
    let end = text.char_indices().find(|at| !is_part(*at)).map_or(text.len(), |(index, _)| index);
    let (digits, after) = text.split_at(end);
    let token = match digits.parse() {
        Ok(integer) => Token::Integer(integer),
        Err(_) => match digits.parse::<f64>() {
            Ok(float) if float.is_finite() => Token::Float(float),
            _ => return Err(SyntaxError::new(line, format!("{digits:?} is not a supported number"))),
        },
    };
    Ok((token, after))
}

/// Reads a string in double quotes, with the escapes of Go.
fn quoted(text: &str, line: usize) -> Result<(Token, &str), SyntaxError> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    let invalid = |escape: &str| SyntaxError::new(line, format!("the escape \\{escape} is not supported"));
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Ok((Token::Text(value), &text[index + 1..])),
            '\n' => break,
            '\\' => {
                let (at, escaped) = characters.next().ok_or_else(|| invalid(""))?;
                match escaped {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    '\\' | '"' => value.push(escaped),
                    'x' | 'u' => {
                        let length = if escaped == 'x' { 2 } else { 4 };
                        let digits = text.get(at + 1..at + 1 + length).unwrap_or_default();
                        let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                        value.push(code.ok_or_else(|| invalid(&format!("{escaped}{digits}")))?);
                        characters.nth(length - 1);
                    }
                    other => return Err(invalid(&other.to_string())),
                }
            }
            other => value.push(other),
        }
    }
    Err(SyntaxError::new(line, "a string is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        match &*split(text).unwrap() {
            [Part::Action(tokens, 1)] => tokens.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn action_has_its_tokens() {
        assert_eq!(
            tokens("{{$a.b := or .x `\"` -1|f}}"),
            [
                Token::Variable("a".into()),
                Token::Field("b".into()),
                Token::Space,
                Token::Declare,
                Token::Space,
                Token::Identifier("or".into()),
                Token::Space,
                Token::Field("x".into()),
                Token::Space,
                Token::Text("\"".into()),
                Token::Space,
                Token::Integer(-1),
                Token::Pipe,
                Token::Identifier("f".into()),
            ]
        );
        assert_eq!(tokens(r#"{{"a\n\"}}\u00e9"}}"#), [Token::Text("a\n\"}}é".into())]);
        assert_eq!(tokens("{{1.5}}"), [Token::Float(1.5)]);
    }

    #[test]
    fn trim_markers_and_comments_remove_spaces() {
        let text = |text: &str| Part::Text(text.into());
        let parts = split("a \n{{- /* x }} */ -}}\n b {{- .}} c").unwrap();
        assert_eq!(parts, [text("a"), text("b"), Part::Action(vec![Token::Dot], 3), text(" c")]);
    }

    #[test]
    fn lexical_errors_have_their_line() {
        for (template, line, message) in [
            ("\n{{ .a", 2, "not closed"),
            ("{{ \"a\n\" }}", 1, "a string is not closed"),
            ("\n{{ `a", 2, "a raw string"),
            ("{{\n 1x }}", 2, "\"1x\" is not a supported number"),
            ("{{ \"\\q\" }}", 1, "escape \\q"),
            ("{{ # }}", 1, "'#'"),
            ("{{/* a", 1, "the comment is not closed"),
            ("{{/* a */ b }}", 1, "a comment has to end"),
        ] {
            let error = split(template).unwrap_err();
            assert_eq!(error.line, line, "{template}");
            assert!(error.message.contains(message), "{template}: {}", error.message);
        }
    }
}
