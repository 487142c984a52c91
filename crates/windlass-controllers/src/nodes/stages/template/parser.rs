//! Parses the tokens of a template.

use serde_json::Value;

use super::{
    Block, Command, Keyword, MOST_NESTED, Node, Operand, Pipeline, Root, SyntaxError,
    functions::Function,
    lexer::{Part, Token, split},
};

/// Parses a template.
pub(super) fn parse(text: &str, own: &[&'static str]) -> Result<Vec<Node>, SyntaxError> {
    let mut parser =
        Parser { parts: split(text)?.into_iter(), own, variables: vec![String::new()], depth: 0, ranges: 0 };
    match parser.nodes()? {
        (nodes, End::Text) => Ok(nodes),
        (_, End::Block(line)) => Err(SyntaxError::new(line, "unexpected \"end\"")),
        (_, End::Else(line, _)) => Err(SyntaxError::new(line, "unexpected \"else\"")),
    }
}

struct Parser<'a> {
    parts: std::vec::IntoIter<Part>,
    own: &'a [&'static str],
    /// The variables in scope. The empty name is `$`.
    variables: Vec<String>,
    depth: usize,
    /// The number of `range` blocks around the current action.
    ranges: usize,
}

/// The end of a list of nodes.
enum End {
    Text,
    Block(usize),
    /// `else`, with its line and the tokens after it.
    Else(usize, Vec<Token>),
}

impl Parser<'_> {
    fn nodes(&mut self) -> Result<(Vec<Node>, End), SyntaxError> {
        let mut nodes = Vec::new();
        while let Some(part) = self.parts.next() {
            let (tokens, line) = match part {
                Part::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Part::Action(tokens, line) => (tokens, line),
            };
            let mut tokens = Tokens::new(tokens, line);
            let keyword = match tokens.peek() {
                Some(Token::Identifier(name)) => name.clone(),
                _ => String::new(),
            };
            let block = match &*keyword {
                "if" => Keyword::If,
                "with" => Keyword::With,
                "range" => Keyword::Range,
                "end" => {
                    tokens.next();
                    tokens.finish()?;
                    return Ok((nodes, End::Block(line)));
                }
                "else" => {
                    tokens.next();
                    return Ok((nodes, End::Else(line, tokens.rest())));
                }
                "break" | "continue" => {
                    tokens.next();
                    tokens.finish()?;
                    if self.ranges == 0 {
                        return Err(tokens.error(format!("{keyword:?} outside of a range")));
                    }
                    nodes.push(if keyword == "break" { Node::Break } else { Node::Continue });
                    continue;
                }
                "define" | "template" | "block" => {
                    return Err(tokens.error(format!("{keyword:?} is not supported")));
                }
                _ => {
                    let pipeline = self.pipeline(&mut tokens, false)?;
                    tokens.finish()?;
                    nodes.push(Node::Action(pipeline));
                    continue;
                }
            };
            tokens.next();
            nodes.push(self.block(block, tokens)?);
        }
        Ok((nodes, End::Text))
    }

    /// Parses a block after its keyword.
    fn block(&mut self, keyword: Keyword, mut tokens: Tokens) -> Result<Node, SyntaxError> {
        let line = tokens.line;
        self.enter(line)?;
        let scope = self.variables.len();
        let pipeline = self.pipeline(&mut tokens, keyword == Keyword::Range)?;
        tokens.finish()?;
        let in_body = self.variables.len();
        let is_range = usize::from(keyword == Keyword::Range);
        self.ranges += is_range;
        let (body, end) = self.nodes()?;
        self.ranges -= is_range;
        self.variables.truncate(in_body);
        let otherwise = match end {
            End::Text => return Err(SyntaxError::new(line, "the block has no \"end\"")),
            End::Block(_) => Vec::new(),
            End::Else(at, rest) => {
                let mut rest = Tokens::new(rest, at);
                match rest.peek() {
                    None => match self.nodes()? {
                        (otherwise, End::Block(_)) => otherwise,
                        (_, End::Else(second, _)) => {
                            return Err(SyntaxError::new(second, "unexpected second \"else\""));
                        }
                        (_, End::Text) => return Err(SyntaxError::new(line, "the block has no \"end\"")),
                    },
                    // The "end" of the inner block ends this one, too.
                    Some(Token::Identifier(word))
                        if (keyword == Keyword::If && word == "if") || (keyword == Keyword::With && word == "with") =>
                    {
                        rest.next();
                        vec![self.block(keyword, rest)?]
                    }
                    Some(_) => return Err(rest.error("unexpected words after \"else\"")),
                }
            }
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok(Node::Block(Box::new(Block { keyword, pipeline, body, otherwise })))
    }

    fn enter(&mut self, line: usize) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(SyntaxError::new(line, format!("more than {MOST_NESTED} nested blocks and parentheses")));
        }
        Ok(())
    }

    fn pipeline(&mut self, tokens: &mut Tokens, may_have_two: bool) -> Result<Pipeline, SyntaxError> {
        let (targets, assigns) = tokens.targets();
        if targets.len() > 1 && !may_have_two {
            return Err(tokens.error("two variables need a range"));
        }
        if assigns && let Some(unknown) = targets.iter().find(|name| !self.variables.contains(name)) {
            return Err(tokens.error(format!("undefined variable \"${unknown}\"")));
        }
        let mut commands = vec![self.command(tokens)?];
        while tokens.take(&Token::Pipe) {
            let command = self.command(tokens)?;
            if !matches!(command.head, Operand::Function(_)) {
                return Err(tokens.error("the value before \"|\" needs a function after it"));
            }
            commands.push(command);
        }
        if !assigns {
            self.variables.extend(targets.iter().cloned());
        }
        Ok(Pipeline { line: tokens.line, targets, assigns, commands })
    }

    fn command(&mut self, tokens: &mut Tokens) -> Result<Command, SyntaxError> {
        let Some(head) = self.operand(tokens)? else {
            return Err(tokens.error("a value or a function is missing"));
        };
        let mut arguments = Vec::new();
        while let Some(argument) = self.operand(tokens)? {
            arguments.push(argument);
        }
        match &head {
            Operand::Function(_) => {}
            Operand::Literal(Value::Null) => return Err(tokens.error("nil is not a command")),
            _ if !arguments.is_empty() => return Err(tokens.error("a value that is not a function has arguments")),
            _ => {}
        }
        Ok(Command { head, arguments })
    }

    fn operand(&mut self, tokens: &mut Tokens) -> Result<Option<Operand>, SyntaxError> {
        let (root, mut fields) = match tokens.peek() {
            None | Some(Token::Pipe | Token::Close) => return Ok(None),
            Some(_) => match tokens.next() {
                Some(Token::Dot) => return Ok(Some(Operand::Path(Root::Dot, Vec::new()))),
                Some(Token::Field(name)) => (Root::Dot, vec![name]),
                Some(Token::Variable(name)) if self.variables.contains(&name) => (Root::Variable(name), Vec::new()),
                Some(Token::Variable(name)) => return Err(tokens.error(format!("undefined variable \"${name}\""))),
                Some(Token::Text(text)) => return Ok(Some(Operand::Literal(Value::String(text)))),
                Some(Token::Integer(number)) => return Ok(Some(Operand::Literal(Value::from(number)))),
                Some(Token::Float(number)) => return Ok(Some(Operand::Literal(Value::from(number)))),
                Some(Token::Identifier(name)) => {
                    return Ok(Some(match &*name {
                        "true" => Operand::Literal(Value::Bool(true)),
                        "false" => Operand::Literal(Value::Bool(false)),
                        "nil" => Operand::Literal(Value::Null),
                        name => match Function::named(name, self.own) {
                            Some(function) => Operand::Function(function),
                            None => return Err(tokens.error(format!("the function {name:?} is not supported"))),
                        },
                    }));
                }
                Some(Token::Open) => {
                    self.enter(tokens.line)?;
                    let scope = self.variables.len();
                    let inner = self.pipeline(tokens, false)?;
                    if !inner.targets.is_empty() {
                        return Err(tokens.error("a variable cannot be set in parentheses"));
                    }
                    if !tokens.take(&Token::Close) {
                        return Err(tokens.error("\")\" is missing"));
                    }
                    self.variables.truncate(scope);
                    self.depth -= 1;
                    (Root::Pipeline(Box::new(inner)), Vec::new())
                }
                other => return Err(tokens.error(format!("unexpected {}", shown(other.as_ref())))),
            },
        };
        while let Some(field) = tokens.field() {
            fields.push(field);
        }
        Ok(Some(Operand::Path(root, fields)))
    }
}

fn shown(token: Option<&Token>) -> &'static str {
    match token {
        Some(Token::Comma) => "\",\"",
        Some(Token::Declare) => "\":=\"",
        Some(Token::Assign) => "\"=\"",
        _ => "end of the action",
    }
}

/// The tokens of one action.
struct Tokens {
    tokens: Vec<Token>,
    at: usize,
    line: usize,
}

impl Tokens {
    fn new(tokens: Vec<Token>, line: usize) -> Self {
        Self { tokens, at: 0, line }
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.line, message)
    }

    /// Returns the next token that is not a space.
    fn peek(&mut self) -> Option<&Token> {
        while self.tokens.get(self.at) == Some(&Token::Space) {
            self.at += 1;
        }
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes a field that follows without a space.
    fn field(&mut self) -> Option<String> {
        let Some(Token::Field(name)) = self.tokens.get(self.at) else { return None };
        self.at += 1;
        Some(name.clone())
    }

    /// Takes the variables before `:=` or `=`. The second value is `true` for `=`.
    fn targets(&mut self) -> (Vec<String>, bool) {
        let begin = self.at;
        let mut names = Vec::new();
        while let Some(Token::Variable(name)) = self.next() {
            names.push(name);
            match self.next() {
                Some(Token::Comma) if names.len() == 1 => {}
                Some(Token::Declare) => return (names, false),
                Some(Token::Assign) => return (names, true),
                _ => break,
            }
        }
        self.at = begin;
        (Vec::new(), false)
    }

    fn rest(mut self) -> Vec<Token> {
        self.tokens.split_off(self.at)
    }

    fn finish(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None => Ok(()),
            Some(Token::Close) => Err(self.error("unexpected \")\"")),
            Some(_) => Err(self.error("unexpected words at the end of the action")),
        }
    }
}
