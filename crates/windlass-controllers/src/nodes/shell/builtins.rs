//! The supported commands. An unknown command does nothing and succeeds.

use std::time::Duration;

use super::{
    expand::calculate,
    machine::{Machine, Stop},
};

/// Reports whether a container can run this program without a shell.
pub(super) fn is_program(name: &str) -> bool {
    const PROGRAMS: [&str; 12] =
        ["true", "false", "sleep", "echo", "printf", "test", "[", "expr", "touch", "cat", "rm", "mkdir"];
    PROGRAMS.contains(&name)
}

/// Runs a command, and returns its exit code.
pub(super) fn run(machine: &mut Machine<'_>, words: &[String], input: &str) -> Result<i32, Stop> {
    let [name, arguments @ ..] = words else { return Ok(0) };
    let size = words.iter().map(String::len).sum();
    machine.pay(size)?;
    match name.rsplit('/').next().unwrap_or_default() {
        "false" => Ok(1),
        "exit" => Err(Stop::Exit(number(machine, arguments))),
        "return" => Err(Stop::Return(number(machine, arguments))),
        "break" => Err(Stop::Break),
        "continue" => Err(Stop::Continue),
        "sleep" => sleep(machine, arguments),
        "echo" => echo(machine, arguments),
        "printf" => printf(machine, arguments),
        "test" => Ok(tested(machine, arguments)),
        "[" => Ok(closed(machine, arguments, "]")),
        "[[" => Ok(closed(machine, arguments, "]]")),
        "expr" => expr(machine, arguments),
        "cat" => cat(machine, arguments, input),
        "touch" => Ok(each(arguments, |path| machine.files.touch(path))),
        "mkdir" => Ok(each(arguments, |path| machine.files.make_directory(path))),
        "rm" => {
            let forced = arguments.iter().any(|argument| argument.starts_with('-') && argument.contains('f'));
            Ok(each(arguments, |path| machine.files.remove(path) || forced))
        }
        "export" | "local" | "readonly" => {
            for (name, value) in arguments.iter().filter_map(|argument| argument.split_once('=')) {
                machine.variables.insert(name.to_owned(), value.to_owned());
            }
            Ok(0)
        }
        "unset" => {
            for name in arguments {
                machine.variables.remove(name);
            }
            Ok(0)
        }
        "shift" => {
            if machine.arguments.len() > 1 {
                machine.arguments.remove(1);
            }
            Ok(0)
        }
        "set" => {
            for argument in arguments {
                match argument.as_bytes() {
                    [b'-', flags @ ..] if flags.contains(&b'e') => machine.exits_on_error = true,
                    [b'+', flags @ ..] if flags.contains(&b'e') => machine.exits_on_error = false,
                    _ => {}
                }
            }
            Ok(0)
        }
        "trap" => {
            if let [handler, signals @ ..] = arguments
                && signals.iter().any(|signal| matches!(&**signal, "TERM" | "SIGTERM" | "15"))
            {
                machine.trap = (handler != "-").then(|| handler.clone());
            }
            Ok(0)
        }
        "exec" if !arguments.is_empty() => {
            let status = machine.call(arguments, input)?;
            Err(Stop::Exit(status))
        }
        // `true`, `:`, and all unsupported commands.
        _ => Ok(0),
    }
}

/// Parses the argument of `exit`. Defaults to the last status.
fn number(machine: &Machine<'_>, arguments: &[String]) -> i32 {
    match arguments.first() {
        None => machine.status,
        Some(text) => text.trim().parse::<i64>().map_or(2, |code| i32::try_from(code & 0xff).unwrap_or(2)),
    }
}

fn sleep(machine: &mut Machine<'_>, arguments: &[String]) -> Result<i32, Stop> {
    if arguments.is_empty() {
        return Ok(1);
    }
    for argument in arguments {
        if matches!(argument.as_str(), "infinity" | "inf") {
            return Err(Stop::Endless);
        }
        let Some(time) = duration(argument) else { return Ok(1) };
        machine.sleep(time)?;
    }
    Ok(0)
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

fn echo(machine: &mut Machine<'_>, arguments: &[String]) -> Result<i32, Stop> {
    let newline = arguments.first().is_none_or(|first| first != "-n");
    let words = if newline { arguments } else { &arguments[1..] };
    let mut text = words.join(" ");
    if newline {
        text.push('\n');
    }
    machine.write(&text)?;
    Ok(0)
}

/// Writes the format once, with `%s` and `%d` replaced.
fn printf(machine: &mut Machine<'_>, arguments: &[String]) -> Result<i32, Stop> {
    let [format, values @ ..] = arguments else { return Ok(2) };
    let mut values = values.iter();
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        match (c, characters.as_str().chars().next()) {
            ('%', Some('s' | 'd')) => {
                characters.next();
                text.push_str(values.next().map(String::as_str).unwrap_or_default());
            }
            ('%', Some('%')) | ('\\', Some('\\')) => {
                characters.next();
                text.push(c);
            }
            ('\\', Some('n')) => {
                characters.next();
                text.push('\n');
            }
            _ => text.push(c),
        }
    }
    machine.write(&text)?;
    Ok(0)
}

fn cat(machine: &mut Machine<'_>, arguments: &[String], input: &str) -> Result<i32, Stop> {
    if arguments.is_empty() {
        machine.write(input)?;
        return Ok(0);
    }
    let mut status = 0;
    for path in arguments {
        match machine.files.read(path).map(str::to_owned) {
            Some(text) => machine.write(&text)?,
            None => status = 1,
        }
    }
    Ok(status)
}

/// Applies an action to each path. Returns 1 if one of them failed.
fn each(arguments: &[String], mut act: impl FnMut(&str) -> bool) -> i32 {
    let paths = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let failures = paths.filter(|path| !act(path)).count();
    i32::from(failures > 0)
}

fn closed(machine: &Machine<'_>, arguments: &[String], bracket: &str) -> i32 {
    match arguments.split_last() {
        Some((last, condition)) if last == bracket => tested(machine, condition),
        _ => 2,
    }
}

/// Evaluates a condition: 0 if it holds, 1 if it does not, 2 if it is invalid.
fn tested(machine: &Machine<'_>, condition: &[String]) -> i32 {
    let words: Vec<_> = condition.iter().map(String::as_str).collect();
    either(machine, &words).map_or(2, |holds| i32::from(!holds))
}

fn either(machine: &Machine<'_>, words: &[&str]) -> Option<bool> {
    for part in words.split(|word| *word == "-o") {
        let mut all = true;
        for part in part.split(|word| *word == "-a") {
            all &= one(machine, part)?;
        }
        if all {
            return Some(true);
        }
    }
    Some(false)
}

fn one(machine: &Machine<'_>, words: &[&str]) -> Option<bool> {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    match words {
        [] | ["-x", _] => Some(false),
        [word] | ["-n", word] => Some(!word.is_empty()),
        ["!", rest @ ..] => Some(!one(machine, rest)?),
        ["-z", word] => Some(word.is_empty()),
        ["-e" | "-r" | "-w", path] => Some(machine.files.exists(path)),
        ["-f", path] => Some(machine.files.read(path).is_some()),
        ["-s", path] => Some(machine.files.read(path).is_some_and(|text| !text.is_empty())),
        ["-d", path] => Some(machine.files.exists(path) && machine.files.read(path).is_none()),
        [left, "=" | "==", right] => Some(left == right),
        [left, "!=", right] => Some(left != right),
        [left, operator, right] => {
            let operator = match *operator {
                "-eq" => "==",
                "-ne" => "!=",
                "-lt" => "<",
                "-le" => "<=",
                "-gt" => ">",
                "-ge" => ">=",
                _ => return None,
            };
            calculate(number(left)?, operator, number(right)?).map(|value| value != 0)
        }
        _ => None,
    }
}

/// Writes the value of an expression. The status is 1 if it is empty or 0.
fn expr(machine: &mut Machine<'_>, arguments: &[String]) -> Result<i32, Stop> {
    const LEVELS: [&[&str]; 3] = [&["=", "==", "!=", "<", "<=", ">", ">="], &["+", "-"], &["*", "/", "%"]];
    fn level(words: &[&str], operators: &[&[&str]]) -> Option<String> {
        let Some((first, stronger)) = operators.split_first() else {
            return if let [word] = words { Some((*word).to_owned()) } else { None };
        };
        match words.iter().rposition(|word| first.contains(word)).filter(|at| *at > 0) {
            None => level(words, stronger),
            Some(at) => {
                let (left, right) = (level(&words[..at], operators)?, level(&words[at + 1..], stronger)?);
                match (left.parse(), right.parse()) {
                    (Ok(left), Ok(right)) => calculate(left, words[at], right).map(|value| value.to_string()),
                    _ if words[at] == "!=" => Some(i64::from(left != right).to_string()),
                    _ if matches!(words[at], "=" | "==") => Some(i64::from(left == right).to_string()),
                    _ => None,
                }
            }
        }
    }
    let words: Vec<_> = arguments.iter().take(64).map(String::as_str).collect();
    let Some(value) = level(&words, &LEVELS) else { return Ok(2) };
    machine.write(&format!("{value}\n"))?;
    Ok(i32::from(value.is_empty() || value == "0"))
}
