//! Writes of the program: execution, attribution, and the faults after a write is stored.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::{self, Duration};
use windlass_client::Verb;

use super::{Gateway, answer, answer::Answer, call::Call, incarnation::Incarnation, retargeted, strikes::Before};
use crate::{
    history::{Claim, Target, changed_fields, is_election, is_recorded, is_removed, text},
    injection::Command,
    plan::{Effect, Point},
    record::ChangeVerb,
};

/// The time limit for everything else to settle.
const STALL: Duration = Duration::from_mins(2);

impl Gateway {
    /// Executes a write, unless a fault prevents it.
    pub(super) async fn write(
        &self,
        process: &Arc<Incarnation>,
        number: usize,
        call: &Call,
        request: Request<Bytes>,
    ) -> Answer {
        let may_change = is_recorded(&call.resource()) && !call.is_dry_run();
        let mut marked = None;
        if may_change {
            match self.strike_before(process, call, &request).await {
                Before::Answered(answer) => return answer,
                Before::Execute { marked: object } => marked = object,
            }
        }
        let after = if may_change { self.revision().await } else { 0 };
        if process.is_closed() {
            return Answer::Never;
        }
        let response = self.call(request).await;
        self.history.executed(number, response.status().as_u16());
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await else { return Answer::Lost };
        let body = body.to_bytes();
        if let Some(object) = marked {
            // Programs may copy annotations to other places. The object may be gone.
            let _ = self.mark(&object, false).await;
        }
        if may_change && parts.status.is_success() {
            let object = serde_json::from_slice(&body).unwrap_or_default();
            let claim = |target| Claim { process: process.number(), request: number, after, target };
            let targets = if is_election(&object) { Vec::new() } else { self.targets(call, &object, after) };
            let claims: Vec<_> = targets.into_iter().map(claim).collect();
            if !claims.is_empty() {
                let points = self.history.claim(number, claims).await;
                if let Some(answer) = self.strike_after(process, &points).await {
                    return answer;
                }
            }
        }
        Answer::Response(http::Response::from_parts(parts, answer::whole(body)))
    }

    /// Returns the changes that a successful response shows.
    fn targets(&self, call: &Call, response: &Value, after: u64) -> Vec<Target> {
        let is_status = text(response, "/kind") == "Status";
        match (call.verb, call.subresource.as_str()) {
            (Verb::Create, "binding") => vec![Target::Next(call.object())],
            // The status that is written before the deletion is not part of the response, either.
            (Verb::Create, "eviction") => {
                let uid = self.history.uid_of(&call.object());
                uid.map(|uid| Target::Deletion { uid, revision: 0 }).into_iter().collect()
            }
            (Verb::DeleteCollection, _) => {
                let items = response.get("items").and_then(Value::as_array);
                items.into_iter().flatten().filter_map(|item| Target::of_deleted(item, after)).collect()
            }
            (Verb::Delete, _) if is_status => match text(response, "/details/uid") {
                "" => Vec::new(),
                uid => vec![Target::Removal { uid: uid.to_owned() }],
            },
            (Verb::Delete, _) => Target::of_deleted(response, after).into_iter().collect(),
            _ => Target::of_written(response, after).into_iter().collect(),
        }
    }

    /// Injects the armed fault if it strikes after one of these changes was stored.
    async fn strike_after(&self, process: &Arc<Incarnation>, points: &[Point]) -> Option<Answer> {
        let is_after = |effect: &Effect| matches!(effect, Effect::Crash | Effect::LostResponse | Effect::Stalled);
        let (point, effect) =
            points.iter().find_map(|point| Some((point, self.injections.strike(point, is_after)?)))?;
        let number = process.number();
        let change = point.explained();
        if effect == Effect::LostResponse {
            let note = format!("closed the connection of process {number} instead of a response, after the {change}");
            self.injections.note(self.history.now(), note);
            return Some(Answer::Lost);
        }
        if effect == Effect::Stalled {
            let note = format!("held the response to process {number}, after the {change}");
            self.injections.note(self.history.now(), note);
            let released = self.gates.stall();
            let _stalled = process.stalled_request();
            // The run has ended if the time is over.
            let _ = time::timeout(STALL, released).await;
            return None;
        }
        self.injections.note(self.history.now(), format!("killed process {number} after the {change}"));
        self.end_process(number, Command::Crash { process: number });
        Some(Answer::Never)
    }

    /// Returns the points of the changes that a write would cause now, from a dry run.
    pub(super) async fn predict(&self, call: &Call, request: &Request<Bytes>) -> Vec<(Point, Value)> {
        let is_deletion = matches!(call.verb, Verb::Delete | Verb::DeleteCollection);
        if !matches!(call.subresource.as_str(), "" | "status" | "scale" | "resize" | "finalize" | "ephemeralcontainers")
        {
            return Vec::new();
        }
        let current = if call.name.is_empty() { None } else { self.read_json(&call.path()).await };
        let Some(dry_run) = dry_run(call, request) else { return Vec::new() };
        let response = self.call(dry_run).await;
        let is_success = response.status().is_success();
        let Ok(body) = response.into_body().collect().await else { return Vec::new() };
        let Ok(mut result) = serde_json::from_slice::<Value>(&body.to_bytes()) else { return Vec::new() };
        if !is_success {
            return Vec::new();
        }
        let resource = call.resource();
        let point = |before: Option<&Value>, after: Value| {
            let is_ending = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
            let (verb, fields) = match before {
                None => (ChangeVerb::Create, Vec::new()),
                Some(before) if (is_deletion || is_ending(before)) && is_removed(&after) => {
                    (ChangeVerb::Delete, Vec::new())
                }
                Some(before) => (ChangeVerb::Update, changed_fields(before, &after)),
            };
            if verb == ChangeVerb::Update && fields.is_empty() {
                // The write has no effect.
                return None;
            }
            Some((self.history.next_point(&resource, verb, &after, fields), after))
        };
        match (call.verb, current) {
            (Verb::DeleteCollection, _) => {
                let items = super::read::items(&mut result);
                let mut points = Vec::new();
                for item in items {
                    let object = Call {
                        name: text(&item, "/metadata/name").to_owned(),
                        namespace: text(&item, "/metadata/namespace").to_owned(),
                        ..call.clone()
                    };
                    let current = self.read_json(&object.path()).await;
                    points.extend(current.and_then(|current| point(Some(&current), item)));
                }
                points
            }
            // The response of a removal does not contain the object.
            (Verb::Delete, Some(current)) if text(&result, "/kind") == "Status" => {
                let point = self.history.next_point(&resource, ChangeVerb::Delete, &current, Vec::new());
                vec![(point, current)]
            }
            (_, Some(current)) if call.subresource == "scale" => {
                let mut scaled = current.clone();
                if let Some(spec) = scaled.get_mut("spec") {
                    // Scales omit 0.
                    spec["replicas"] = result.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(0));
                }
                point(Some(&current), scaled).into_iter().collect()
            }
            (_, current) => point(current.as_ref(), result).into_iter().collect(),
        }
    }
}

/// Returns a request as a dry run.
fn dry_run(call: &Call, request: &Request<Bytes>) -> Option<Request<Bytes>> {
    let (mut parts, mut body) = request.clone().into_parts();
    let target = call.query.clone().with("dryRun", "All").on(parts.uri.path());
    // The options in the body of a deletion replace those of the query.
    if parts.method == Method::DELETE && !body.is_empty() {
        let options = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
        let mut options = options.unwrap_or_else(|| json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
        options["dryRun"] = json!(["All"]);
        body = options.to_string().into();
        parts.headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    }
    retargeted(&parts, &target, body)
}
