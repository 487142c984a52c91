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
    Indenter::default().indent(compact)
}

/// Indents a compact document that arrives in parts.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The last byte has opened an object or an array, which may be empty.
    is_opened: bool,
}

impl Indenter {
    /// Returns the next part, indented.
    pub(crate) fn indent(&mut self, compact: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(compact.len() * 2);
        for byte in compact.iter().copied() {
            if self.in_string {
                out.push(byte);
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                continue;
            }
            let is_closing = matches!(byte, b'}' | b']');
            if std::mem::take(&mut self.is_opened) {
                if is_closing {
                    out.push(byte);
                    continue;
                }
                self.depth += 1;
                self.line(&mut out);
            }
            if is_closing {
                self.depth = self.depth.saturating_sub(1);
                self.line(&mut out);
            }
            out.push(byte);
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.is_opened = true,
                b',' => self.line(&mut out),
                b':' => out.push(b' '),
                _ => {}
            }
        }
        out
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', self.depth * 2));
    }
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
        let mut indenter = Indenter::default();
        let bytes = compact.chunks(1).flat_map(|byte| indenter.indent(byte)).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), lines);
    }
}
