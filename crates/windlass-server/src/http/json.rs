//! JSON documents in kube-apiserver's format.

use serde::Serialize;

use crate::encoded::push_json;

/// Encodes a value as Go's encoder does, without the trailing newline.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    push_json(value, &mut out);
    out
}

/// Indents a compact document by two spaces per level, without a trailing newline.
pub(crate) fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    let mut bytes = compact.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                if matches!(bytes.peek(), Some(b'}' | b']')) {
                    out.extend(bytes.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend(*b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            byte => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_keeps_empty_containers_and_strings() {
        let compact = br#"{"a":{},"b":[],"c":[1,{"d":"x,{:}\""}]}"#;
        let lines =
            "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x,{:}\\\"\"\n    }\n  ]\n}";
        assert_eq!(String::from_utf8(indent(compact)).unwrap(), lines);
    }
}
