//! The document of version 2 in protobuf for older clients: the `openapi_v2.Document` of gnostic.
//!
//! Generated directly from the JSON tree, because a table of field numbers per message would be as long. Fields that
//! our documents never have are not implemented.

use serde_json::Value;

use crate::codec::to_yaml;

/// The bytes of a message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                return self.0.push(low & 0x7f);
            }
            self.0.push(low | 0x80);
        }
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a text if it exists.
    fn text(self, field: u64, value: &Value) -> Self {
        match value.as_str() {
            Some(text) => self.bytes(field, text.as_bytes()),
            None => self,
        }
    }

    fn flag(mut self, field: u64, value: &Value) -> Self {
        if *value == true {
            self.varint(field << 3);
            self.varint(1);
        }
        self
    }

    fn integer(mut self, field: u64, value: &Value) -> Self {
        if let Some(number) = value.as_u64() {
            self.varint(field << 3);
            self.varint(number);
        }
        self
    }

    fn number(mut self, field: u64, value: &Value) -> Self {
        if let Some(number) = value.as_f64() {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
        self
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn texts(self, field: u64, values: &Value) -> Self {
        let texts = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.fold(self, |message, text| message.bytes(field, text.as_bytes()))
    }

    /// Appends one message per item.
    fn each(self, field: u64, values: &Value, one: impl Fn(&Value) -> Self) -> Self {
        values.as_array().into_iter().flatten().fold(self, |message, value| message.message(field, &one(value)))
    }

    /// Appends one named message per entry.
    fn named(self, field: u64, values: &Value, one: impl Fn(&Value) -> Self) -> Self {
        values.as_object().into_iter().flatten().fold(self, |message, (name, value)| {
            message.message(field, &Self::default().bytes(1, name.as_bytes()).message(2, &one(value)))
        })
    }

    /// Appends the `x-…` fields of an object.
    fn extensions(self, field: u64, object: &Value) -> Self {
        let extensions = object.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"));
        extensions.fold(self, |message, (name, value)| {
            message.message(field, &Self::default().bytes(1, name.as_bytes()).message(2, &any(value)))
        })
    }
}

/// Returns the document in protobuf.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let info = &document["info"];
    let nothing = |_: &Value| Message::default();
    let key = |security: &Value| {
        let key = Message::default().text(1, &security["type"]).text(2, &security["name"]).text(3, &security["in"]);
        Message::default().message(2, &key)
    };
    Message::default()
        .text(1, &document["swagger"])
        .message(2, &Message::default().text(1, &info["title"]).text(2, &info["version"]))
        .message(8, &Message::default().named(2, &document["paths"], path_item))
        .message(9, &Message::default().named(1, &document["definitions"], schema))
        .each(12, &document["security"], |requirement| Message::default().named(1, requirement, nothing))
        .message(13, &Message::default().named(1, &document["securityDefinitions"], key))
        .0
}

fn any(value: &Value) -> Message {
    Message::default().bytes(2, to_yaml(value).as_bytes())
}

fn path_item(item: &Value) -> Message {
    const METHODS: [(u64, &str); 7] =
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")];
    METHODS
        .into_iter()
        .filter(|(_, method)| item[*method].is_object())
        .fold(Message::default(), |message, (field, method)| message.message(field, &operation(&item[method])))
        .each(9, &item["parameters"], parameter)
}

fn operation(operation: &Value) -> Message {
    Message::default()
        .texts(1, &operation["tags"])
        .text(5, &operation["operationId"])
        .texts(6, &operation["produces"])
        .texts(7, &operation["consumes"])
        .each(8, &operation["parameters"], parameter)
        .message(9, &Message::default().named(1, &operation["responses"], response))
        .texts(10, &operation["schemes"])
        .extensions(13, operation)
}

fn response(response: &Value) -> Message {
    let mut described = Message::default().text(1, &response["description"]);
    if response["schema"].is_object() {
        described = described.message(2, &Message::default().message(1, &schema(&response["schema"])));
    }
    Message::default().message(1, &described)
}

fn parameter(parameter: &Value) -> Message {
    let described = Message::default();
    let whole = match parameter["in"].as_str() {
        Some("body") => {
            let body = described.text(2, &parameter["name"]).text(3, &parameter["in"]).flag(4, &parameter["required"]);
            Message::default().message(1, &body.message(5, &schema(&parameter["schema"])))
        }
        Some("path") => {
            let path = described.flag(1, &parameter["required"]).text(2, &parameter["in"]).text(4, &parameter["name"]);
            let path = path.text(5, &parameter["type"]).flag(19, &parameter["uniqueItems"]);
            Message::default().message(2, &Message::default().message(4, &path))
        }
        _ => {
            let query = described.flag(1, &parameter["required"]).text(2, &parameter["in"]).text(4, &parameter["name"]);
            let query = query.text(6, &parameter["type"]).flag(20, &parameter["uniqueItems"]);
            Message::default().message(2, &Message::default().message(3, &query))
        }
    };
    Message::default().message(1, &whole)
}

fn schema(value: &Value) -> Message {
    let mut message = Message::default()
        .text(1, &value["$ref"])
        .text(2, &value["format"])
        .text(3, &value["title"])
        .text(4, &value["description"])
        .number(6, &value["multipleOf"])
        .number(7, &value["maximum"])
        .flag(8, &value["exclusiveMaximum"])
        .number(9, &value["minimum"])
        .flag(10, &value["exclusiveMinimum"])
        .integer(11, &value["maxLength"])
        .integer(12, &value["minLength"])
        .text(13, &value["pattern"])
        .integer(14, &value["maxItems"])
        .integer(15, &value["minItems"])
        .flag(16, &value["uniqueItems"])
        .integer(17, &value["maxProperties"])
        .integer(18, &value["minProperties"])
        .texts(19, &value["required"])
        .each(20, &value["enum"], any);
    message = match &value["additionalProperties"] {
        Value::Null => message,
        Value::Bool(allowed) => {
            let mut item = Message::default();
            item.varint(2 << 3);
            item.varint(u64::from(*allowed));
            message.message(21, &item)
        }
        below => message.message(21, &Message::default().message(1, &schema(below))),
    };
    if let Some(kind) = value["type"].as_str() {
        message = message.message(22, &Message::default().bytes(1, kind.as_bytes()));
    }
    if value["items"].is_object() {
        message = message.message(23, &Message::default().message(1, &schema(&value["items"])));
    }
    message = message.each(24, &value["allOf"], schema);
    if value["properties"].is_object() {
        message = message.message(25, &Message::default().named(1, &value["properties"], schema));
    }
    message.extensions(31, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn protobuf_schema_equals_kube_apiservers_bytes() {
        // The field `strategy` of a DeploymentSpec, without its description.
        let value = json!({
            "$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy", "x-kubernetes-patch-strategy": "retainKeys",
        });
        let mut expected = b"\x0a\x33#/definitions/io.k8s.api.apps.v1.DeploymentStrategy".to_vec();
        expected.extend_from_slice(b"\xfa\x01\x2c\x0a\x1bx-kubernetes-patch-strategy\x12\x0d\x12\x0bretainKeys\x0a");
        assert_eq!(schema(&value).0, expected);
        assert_eq!(schema(&json!({"type": "string"})).0, b"\xb2\x01\x08\x0a\x06string");
    }
}
