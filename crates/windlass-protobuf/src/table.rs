//! The table of kinds and messages, which is generated from the Go types.
//!
//! The text is compiled in and parsed on first use.

use std::{collections::HashMap, ops::Range, sync::LazyLock};

const TEXT: &str = include_str!("../data/messages.txt");

/// The messages of the types with their own JSON encoding. Their names are those in the table's types.
const SPECIAL: &str = "\
message Quantity
1 string s
message IntOrString
1 type l
2 intVal i
3 strVal s
message Time
1 seconds l
2 nanos i
message MicroTime
1 seconds l
2 nanos i
message FieldsV1
1 raw y
message RawExtension
1 raw y
message JSON
1 raw y
message JSONSchemaPropsOrBool
1 allows b
2 schema *JSONSchemaProps
message JSONSchemaPropsOrArray
1 schema *JSONSchemaProps
2 schemas [JSONSchemaProps
message JSONSchemaPropsOrStringArray
1 schema *JSONSchemaProps
2 property [s
message %[s
1 items [s
";

/// The kinds that each group version has.
const EVERYWHERE: &str = "*";

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(&[SPECIAL, TEXT]));

#[derive(Debug)]
pub(crate) struct Table {
    messages: Vec<Message>,
    kinds: Kinds,
}

/// The messages by group version and kind. Each object is looked up, so the hash is a quick one.
#[derive(Debug, Default)]
struct Kinds {
    /// Every kind at the place of its hash, or at the next free one. Some places are free.
    places: Vec<Option<Kind>>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    version: &'static str,
    name: &'static str,
    message: MessageId,
}

/// The position of a message in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(u16);

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// The fields in the order of the Go struct, which is that of JSON.
    pub(crate) fields: Vec<Field>,
    /// The indexes of `fields` in the order of their numbers.
    pub(crate) by_number: Vec<u16>,
    /// The index in `fields` of each number.
    index: Vec<Option<u16>>,
    /// The names of all fields of the JSON object, including those of embedded messages.
    pub(crate) keys: Vec<&'static str>,
    /// The indexes of the fields that are in the JSON although they are not in the message, in order.
    pub(crate) written: Vec<u16>,
    /// The indexes of `fields` by the hash of a name. The next free place has the next name with a hash.
    names: Vec<Option<(&'static str, u16)>>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) item: Item,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    /// `true` if the field is in the JSON although it is not in the message. Go omits no structs as empty.
    pub(crate) is_always_written: bool,
    /// The minor versions of Kubernetes that have the field, of those that have the message.
    pub(crate) minors: Range<u32>,
    /// The position in the message's `keys`; of an embedded message, that of its first key.
    pub(crate) slot: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Value,
    Pointer,
    List,
    Map,
    /// A message whose fields are in the outer object in JSON.
    Embedded,
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Message(MessageId),
    Special(Special, MessageId),
}

/// The types with their own JSON encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// JSON in a bytes field.
    Raw,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    /// A list of strings in a message.
    Strings,
}

// === impl Table ===

impl Table {
    fn parse(texts: &[&'static str]) -> Self {
        let lines = || texts.iter().flat_map(|text| text.lines());
        let names = lines().filter_map(|line| line.strip_prefix("message "));
        let ids: HashMap<&str, MessageId> =
            names.enumerate().map(|(at, name)| (name, MessageId(u16::try_from(at).unwrap_or(u16::MAX)))).collect();
        let mut table = Self { messages: Vec::with_capacity(ids.len()), kinds: Kinds::default() };
        let mut kinds = Vec::new();
        for line in lines() {
            if let Some(name) = line.strip_prefix("message ") {
                table.messages.push(Message {
                    name: if name == "%[s" { "list of strings" } else { name },
                    fields: Vec::new(),
                    by_number: Vec::new(),
                    index: Vec::new(),
                    keys: Vec::new(),
                    written: Vec::new(),
                    names: Vec::new(),
                });
            } else if let Some(line) = line.strip_prefix("kinds ") {
                let mut words = line.split(' ');
                let version = words.next().unwrap_or_default();
                for word in words {
                    let (name, message) = word.split_once('=').unwrap_or((word, word));
                    kinds.extend(ids.get(message).map(|message| Kind { version, name, message: *message }));
                }
            } else if let Some(message) = table.messages.last_mut()
                && let Some(field) = Field::parse(line, &ids)
            {
                message.fields.push(field);
            }
        }
        table.kinds = Kinds::new(&kinds);
        for at in 0..table.messages.len() {
            table.complete(at);
        }
        table
    }

    /// Fills in what follows from the fields of a message.
    fn complete(&mut self, at: usize) {
        let mut keys = Vec::new();
        let mut slots = Vec::new();
        self.collect_keys(at, &mut keys, &mut slots);
        let mut names = vec![None; (2 * keys.len() + 1).next_power_of_two()];
        for (slot, name) in keys.iter().enumerate() {
            let field = slots.partition_point(|first| *first <= slot) - 1;
            let mut place = hash(name) & (names.len() - 1);
            while names[place].is_some() {
                place = (place + 1) & (names.len() - 1);
            }
            names[place] = Some((*name, u16::try_from(field).unwrap_or(u16::MAX)));
        }
        let message = &mut self.messages[at];
        message.names = names;
        for (field, slot) in message.fields.iter_mut().zip(slots) {
            field.slot = slot;
        }
        message.keys = keys;
        message.written =
            (0..).zip(&message.fields).filter(|(_, field)| field.is_always_written).map(|(at, _)| at).collect();
        message.by_number = (0..).take(message.fields.len()).collect();
        message.by_number.sort_by_key(|index| message.fields[usize::from(*index)].number);
        let highest = message.fields.iter().map(|field| field.number as usize).max().unwrap_or_default();
        message.index = vec![None; highest + 1];
        for index in &message.by_number {
            message.index[message.fields[usize::from(*index)].number as usize] = Some(*index);
        }
    }

    /// Appends the names of all fields of the JSON object, and the position of each field's name.
    fn collect_keys(&self, at: usize, keys: &mut Vec<&'static str>, slots: &mut Vec<usize>) {
        for field in &self.messages[at].fields {
            slots.push(keys.len());
            match (field.form, field.item) {
                (Form::Embedded, Item::Message(inner)) => {
                    self.collect_keys(usize::from(inner.0), keys, &mut Vec::new());
                }
                _ => keys.push(field.name),
            }
        }
    }
}

/// Returns the message of a kind.
pub(crate) fn message_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    let kinds = &TABLE.kinds;
    // A version that the table does not have has no kinds at all.
    let id = kinds.get(api_version, kind).or_else(|| {
        let has_version = || kinds.all().any(|kind| kind.version == api_version);
        kinds.get(EVERYWHERE, kind).filter(|_| has_version())
    })?;
    Some(id.get())
}

/// Returns the group version and the name of every kind, without those that each group version has.
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.kinds.all().filter(|kind| kind.version != EVERYWHERE).map(|kind| (kind.version, kind.name))
}

/// A hash of a name: most names of one message, and most kinds, differ in their length or in one of these letters.
#[inline]
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let letter = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    let length = bytes.len();
    length ^ letter(0).wrapping_mul(31) ^ letter(length / 2).wrapping_mul(7) ^ letter(length.wrapping_sub(1)) << 2
}

// === impl Kinds ===

impl Kinds {
    fn new(kinds: &[Kind]) -> Self {
        let mut places = vec![None; (2 * kinds.len() + 1).next_power_of_two()];
        for kind in kinds {
            let mut place = Self::hash(kind.version, kind.name) & (places.len() - 1);
            while places[place].is_some() {
                place = (place + 1) & (places.len() - 1);
            }
            places[place] = Some(*kind);
        }
        Self { places }
    }

    fn get(&self, version: &str, name: &str) -> Option<MessageId> {
        let last = self.places.len() - 1;
        let mut place = Self::hash(version, name) & last;
        while let Some(kind) = &self.places[place] {
            if kind.name == name && kind.version == version {
                return Some(kind.message);
            }
            place = (place + 1) & last;
        }
        None
    }

    fn all(&self) -> impl Iterator<Item = &Kind> {
        self.places.iter().flatten()
    }

    fn hash(version: &str, name: &str) -> usize {
        hash(name).wrapping_mul(17).wrapping_add(hash(version))
    }
}

// === impl MessageId ===

impl MessageId {
    pub(crate) fn get(self) -> &'static Message {
        &TABLE.messages[usize::from(self.0)]
    }
}

// === impl Message ===

impl Message {
    /// Returns the index of the field with a number.
    pub(crate) fn index_of(&self, number: u32) -> Option<u16> {
        self.index.get(number as usize).copied().flatten()
    }

    /// Returns the field with a name in JSON; for a name in an embedded message, the field of this message.
    #[inline]
    pub(crate) fn field_of(&self, name: &str) -> Option<&Field> {
        let last = self.names.len() - 1;
        let mut place = hash(name) & last;
        while let Some((known, index)) = self.names[place] {
            if known == name {
                return self.fields.get(usize::from(index));
            }
            place = (place + 1) & last;
        }
        None
    }

    /// Returns the position of a key in `keys`. Keys are usually in this order, so the search starts at `expected`.
    pub(crate) fn slot_of(&self, key: &str, expected: usize) -> Option<usize> {
        let (before, after) = self.keys.split_at(expected.min(self.keys.len()));
        let found = after.iter().position(|name| *name == key).map(|at| at + before.len());
        found.or_else(|| before.iter().position(|name| *name == key))
    }
}

// === impl Field ===

impl Field {
    fn parse(line: &'static str, ids: &HashMap<&'static str, MessageId>) -> Option<Self> {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let (name, ty, flags) = (words.next()?, words.next()?, words.next().unwrap_or_default());
        let (form, ty) = match ty.as_bytes().first()? {
            b'*' => (Form::Pointer, &ty[1..]),
            b'[' => (Form::List, &ty[1..]),
            b'{' => (Form::Map, &ty[1..]),
            _ if name == "-" => (Form::Embedded, ty),
            _ => (Form::Value, ty),
        };
        let (flags, until) =
            flags.split_once('-').map_or((flags, Ok(u32::MAX)), |(flags, until)| (flags, until.parse()));
        let (flags, since) = flags.split_once('+').map_or((flags, Ok(0)), |(flags, since)| (flags, since.parse()));
        let item = Item::parse(ty, ids)?;
        let omit_empty = flags.contains('o');
        let is_struct = form == Form::Value && matches!(item, Item::Message(_) | Item::Special(..));
        Some(Self {
            number,
            name,
            form,
            item,
            omit_empty,
            is_always_written: form == Form::Embedded || !omit_empty || is_struct,
            omit_zero: flags.contains('z'),
            minors: since.ok()?..until.ok()?,
            slot: 0,
        })
    }
}

// === impl Item ===

impl Item {
    fn parse(ty: &str, ids: &HashMap<&'static str, MessageId>) -> Option<Self> {
        let special = match ty {
            "s" => return Some(Self::String),
            "b" => return Some(Self::Bool),
            "i" => return Some(Self::Int32),
            "l" => return Some(Self::Int64),
            "f" => return Some(Self::Float64),
            "y" => return Some(Self::Bytes),
            "Quantity" => Special::Quantity,
            "IntOrString" => Special::IntOrString,
            "Time" => Special::Time,
            "MicroTime" => Special::MicroTime,
            "FieldsV1" | "RawExtension" | "JSON" => Special::Raw,
            "JSONSchemaPropsOrBool" => Special::SchemaOrBool,
            "JSONSchemaPropsOrArray" => Special::SchemaOrArray,
            "JSONSchemaPropsOrStringArray" => Special::SchemaOrStrings,
            "%[s" => Special::Strings,
            _ => return Some(Self::Message(*ids.get(ty)?)),
        };
        Some(Self::Special(special, *ids.get(ty)?))
    }

    /// Reports whether the value of a field that is not a pointer can be nil, which is not an empty value.
    pub(crate) const fn is_nil_without_value(self) -> bool {
        matches!(self, Self::Bytes | Self::Special(Special::Strings, _))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_of_the_text_is_in_the_table() {
        let mut messages = 0;
        let mut fields = 0;
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            match line.split(' ').next() {
                Some("message") => messages += 1,
                Some("kinds") => {
                    let mut words = line.split(' ').skip(1);
                    let version = words.next().unwrap();
                    for kind in words {
                        let kind = kind.split('=').next().unwrap();
                        assert!(message_of(version, kind).is_some(), "{version} {kind}");
                    }
                }
                _ => fields += 1,
            }
        }
        let special = SPECIAL.lines().filter(|line| line.starts_with("message ")).count();
        assert_eq!(TABLE.messages.len(), messages + special);
        let of_special = SPECIAL.lines().count() - special;
        assert_eq!(TABLE.messages.iter().map(|message| message.fields.len()).sum::<usize>(), fields + of_special);
        let names: HashSet<_> = TABLE.messages.iter().map(|message| message.name).collect();
        assert_eq!(names.len(), TABLE.messages.len());
        assert!(messages > 800 && fields > 3000, "{messages} messages, {fields} fields");
    }

    #[test]
    fn embedded_messages_have_keys_in_the_outer_object() {
        let volume = message_of("v1", "Pod").unwrap().fields[1].item;
        let Item::Message(spec) = volume else { panic!("{volume:?}") };
        let Item::Message(volume) = spec.get().fields[0].item else { panic!("{:?}", spec.get().fields[0]) };
        let volume = volume.get();
        assert_eq!((volume.name, volume.keys[0], volume.keys[1]), ("Volume", "name", "hostPath"));
        assert_eq!(volume.fields.len(), 2);
        assert_eq!(volume.slot_of("hostPath", 5), Some(1));
        assert_eq!(volume.slot_of("kind", 0), None);
    }

    #[test]
    fn kinds_of_every_group_version_are_found() {
        assert_eq!(message_of("apps/v1", "DeleteOptions").unwrap().name, "DeleteOptions");
        assert!(message_of("example.com/v1", "DeleteOptions").is_none());
        assert!(message_of("apps/v1", "Pod").is_none());
        assert!(kinds().count() > 350);
    }
}
