//! The messages of windlass-protobuf, read from its table.

use std::collections::BTreeMap;

use crate::Result;

/// The newest minor version of the table. Fields that it does not have are ignored by the readers.
const NEWEST: u32 = 37;

/// The types with their own JSON encoding.
pub(super) const SPECIAL: [&str; 10] = [
    "FieldsV1",
    "IntOrString",
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
    "MicroTime",
    "Quantity",
    "RawExtension",
    "Time",
];

/// The message with a list of strings.
pub(super) const STRINGS: &str = "%[s";

#[derive(Debug, Default)]
pub(super) struct Table<'t> {
    pub(super) messages: BTreeMap<&'t str, Vec<Field<'t>>>,
    /// The message of each API version and kind.
    pub(super) kinds: BTreeMap<(&'t str, &'t str), &'t str>,
}

#[derive(Debug)]
pub(super) struct Field<'t> {
    pub(super) number: u32,
    pub(super) name: &'t str,
    pub(super) form: Form,
    /// The type of one value: a letter, or the name of a message.
    pub(super) item: &'t str,
    pub(super) omit_empty: bool,
    /// `false` for a field that the newest minor version does not have.
    pub(super) is_current: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Value,
    Pointer,
    List,
    Map,
    Embedded,
}

impl<'t> Table<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self> {
        let mut table = Self::default();
        let mut message = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix("message ") {
                message = name;
                table.messages.insert(name, Vec::new());
            } else if let Some(line) = line.strip_prefix("kinds ") {
                let (version, kinds) = line.split_once(' ').ok_or("a group version without kinds")?;
                for kind in kinds.split(' ') {
                    let (kind, message) = kind.split_once('=').unwrap_or((kind, kind));
                    table.kinds.insert((version, kind), message);
                }
            } else {
                let field = Field::parse(line).ok_or_else(|| format!("{message}: an unknown line: {line}"))?;
                table.messages.entry(message).or_default().push(field);
            }
        }
        Ok(table)
    }
}

impl<'t> Field<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let (name, ty, flags) = (words.next()?, words.next()?, words.next().unwrap_or_default());
        let (form, item) = match ty.as_bytes().first()? {
            b'*' => (Form::Pointer, &ty[1..]),
            b'[' => (Form::List, &ty[1..]),
            b'{' => (Form::Map, &ty[1..]),
            _ if name == "-" => (Form::Embedded, ty),
            _ => (Form::Value, ty),
        };
        let until = flags.split_once('-').map_or(Some(u32::MAX), |(_, until)| until.parse().ok())?;
        Some(Self { number, name, form, item, omit_empty: flags.contains('o'), is_current: NEWEST < until })
    }

    /// Reports whether Go omits no values of the type as empty.
    pub(super) fn is_struct(&self) -> bool {
        self.item == STRINGS || self.item.len() > 1
    }

    /// Returns the wire type of a value; those of maps are in messages.
    pub(super) fn wire(&self) -> &'static str {
        match self.item {
            _ if self.form == Form::Map => "BYTES",
            "b" | "i" | "l" => "VARINT",
            "f" => "FIXED64",
            _ => "BYTES",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_kinds_and_fields() {
        let text = "# comment\nkinds v1 Pod Other=x.Other\nmessage Pod\n1 metadata ObjectMeta o\n2 old *b o-36\n3 - [i o+35-37\n";
        let table = Table::parse(text).unwrap();
        assert_eq!(table.kinds[&("v1", "Other")], "x.Other");
        let fields = &table.messages["Pod"];
        assert!(fields[0].is_struct() && fields[0].is_current && fields[0].omit_empty);
        assert_eq!((fields[1].form, fields[1].wire(), fields[1].is_current), (Form::Pointer, "VARINT", false));
        assert_eq!((fields[2].form, fields[2].is_current), (Form::List, false));
        assert!(Table::parse("message A\nx").unwrap_err().to_string().contains("A: an unknown line: x"));
    }
}
