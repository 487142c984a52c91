//! A JSON generator that the fuzzer's input controls, so that most documents are well-formed.

/// The text for each byte of a string: plain characters, escapes, brackets and quotes.
const TEXT: [&str; 16] = [
    "a",
    "items",
    "é",
    "\u{1f600}",
    " ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    r#"\""#,
    r"\\",
    r"\n",
    r"\u0022",
    r"\ud83d\ude00",
];
const WHITE_SPACE: [&str; 4] = ["", "", " ", "\r\n\t"];
const SCALARS: [&str; 8] = ["null", "true", "false", "0", "-1.5e+3", "18446744073709551616", "\"\"", "\"}]\""];

/// Writes one value, and consumes its choices from the start of the input. An empty input counts as zeros.
pub fn write(input: &mut &[u8], depth: u8, out: &mut String) {
    let shape = take(input);
    let members = if depth == 0 { 0 } else { shape >> 4 };
    match shape & 3 {
        0 => out.push_str(SCALARS[usize::from(shape >> 2) % SCALARS.len()]),
        1 => string(input, out),
        2 => sequence(input, members, ["[", "]"], out, |input, out| write(input, depth - 1, out)),
        _ => object(input, members, depth, out),
    }
}

/// Writes an object with this number of members.
pub fn object(input: &mut &[u8], members: u8, depth: u8, out: &mut String) {
    sequence(input, members, ["{", "}"], out, |input, out| {
        string(input, out);
        white_space(input, out);
        out.push(':');
        white_space(input, out);
        write(input, depth.saturating_sub(1), out);
    });
}

/// Writes this number of elements between brackets.
pub fn sequence(
    input: &mut &[u8],
    elements: u8,
    [opening, closing]: [&str; 2],
    out: &mut String,
    mut element: impl FnMut(&mut &[u8], &mut String),
) {
    out.push_str(opening);
    for index in 0..elements {
        if index > 0 {
            out.push(',');
        }
        white_space(input, out);
        element(input, out);
        white_space(input, out);
    }
    out.push_str(closing);
}

pub fn white_space(input: &mut &[u8], out: &mut String) {
    out.push_str(WHITE_SPACE[usize::from(take(input)) % WHITE_SPACE.len()]);
}

pub fn take(input: &mut &[u8]) -> u8 {
    input.split_off_first().copied().unwrap_or_default()
}

fn string(input: &mut &[u8], out: &mut String) {
    out.push('"');
    for _ in 0..take(input) % 100 {
        out.push_str(TEXT[usize::from(take(input)) % TEXT.len()]);
    }
    out.push('"');
}
