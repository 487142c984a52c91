//! Lists and events in JSON.

use std::ops::Range;

use serde_json::{Value, json};

use super::{
    Place, Workload,
    template::{FIRST_VERSION, Template},
};

pub(super) const LIST_TAIL: &[u8] = b"]}";

/// Returns a template without the opening brace, because kind and apiVersion precede it.
pub(super) fn template(object: &Value) -> Template {
    Template::new(object.to_string().as_bytes()[1..].to_vec())
}

/// Returns the template's object, with all marks except times.
pub(super) fn object(template: &Template) -> Vec<u8> {
    let mut object = vec![b'{'];
    object.extend(template.with_times());
    object
}

impl Workload {
    pub(super) fn json_list_head(&self, out: &mut Vec<u8>, page: Range<usize>) {
        let mut metadata = json!({"resourceVersion": FIRST_VERSION.to_string()});
        if page.end < self.objects {
            metadata["continue"] = page.end.to_string().into();
            metadata["remainingItemCount"] = (self.objects - page.end).into();
        }
        let (kind, version) = (self.kind, self.api_version);
        let head = format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{metadata},"items":["#);
        out.extend_from_slice(head.as_bytes());
    }

    pub(super) fn json_item(&self, out: &mut Vec<u8>, object: usize, place: Place) {
        if place == Place::Later {
            out.push(b',');
        }
        self.json_object(out, object, 0, self.typed_items);
    }

    pub(super) fn json_event(&self, out: &mut Vec<u8>, object: usize, change: u64) {
        out.extend_from_slice(br#"{"type":"MODIFIED","object":"#);
        self.json_object(out, object, change, true);
        out.extend_from_slice(b"}\n");
    }

    pub(super) fn json_object(&self, out: &mut Vec<u8>, object: usize, change: u64, typed: bool) {
        out.push(b'{');
        if typed {
            out.extend_from_slice(format!(r#""kind":"{}","apiVersion":"{}","#, self.kind, self.api_version).as_bytes());
        }
        self.templates[object % self.templates.len()].write(out, self.filling(object, change));
    }
}
