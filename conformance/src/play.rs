//! Playing a case with a server: sends the requests and collects the unmodified responses.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use windlass_api::{Clock, Entropy};
use windlass_client::{Body, Client};

mod flow;

use crate::{
    PATIENCE,
    case::{Act, Amount, Case, Step, Template, Until},
    extension::Extension,
    path::is,
};

/// The timeout for a response, or for the events of a step.
const ANSWER: Duration = Duration::from_secs(30);
/// The pause between repeated requests.
const PAUSE: Duration = Duration::from_millis(100);

/// The responses of a played case.
#[derive(Debug)]
pub(crate) struct Transcript {
    /// The replacement of `{id}`.
    pub(crate) id: String,
    /// The replacement of `{extension}`, if the case uses it.
    pub(crate) extension: Option<u16>,
    /// One response per played step. Fewer than steps if one failed.
    pub(crate) answers: Vec<Answer>,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) at: Timestamp,
    pub(crate) seen: Seen,
    /// The names of the FlowSchema and the priority level, if they are compared.
    pub(crate) flow: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Seen {
    Response {
        head: response::Parts,
        body: Bytes,
    },
    /// A watch was opened.
    Opened {
        head: response::Parts,
    },
    Events {
        events: Vec<Value>,
        ended: bool,
    },
    /// There was no response; the rest of the case is not played.
    Failed(String),
}

/// An open watch.
#[derive(Debug)]
struct Watch {
    body: Body,
    /// Received bytes without a complete line.
    rest: Vec<u8>,
}

/// Plays a case. Never fails, because a missing response is also a result.
pub(crate) async fn play(client: &Client, case: &Case) -> Transcript {
    // A letter comes first, because some names cannot start with a digit.
    let id = format!("c{}", Entropy::os().name_suffix(7));
    let mut player = Player {
        client,
        values: BTreeMap::from([
            ("id".to_owned(), id.clone()),
            ("id6".to_owned(), as_address(&id)),
            ("ns".to_owned(), format!("ns-{id}")),
        ]),
        watches: BTreeMap::new(),
    };
    let running = if mentions(case, "{extension}") {
        let started = Extension::start(format!("{id}.example.com")).await;
        player.values.insert("extension".to_owned(), started.port.to_string());
        Some(started)
    } else {
        None
    };
    let extension = running.as_ref().map(|running| running.port);
    let mut answers = Vec::new();
    if let Err(problem) = player.prepare(case).await {
        let failed = Answer { at: Clock::system().now(), seen: Seen::Failed(problem), flow: None };
        return Transcript { id, extension, answers: vec![failed] };
    }
    for step in &case.steps {
        let (seen, flow) = player.step(step).await.unwrap_or_else(|problem| (Seen::Failed(problem), None));
        let failed = matches!(seen, Seen::Failed(_));
        answers.push(Answer { at: Clock::system().now(), seen, flow });
        if failed {
            break;
        }
    }
    Transcript { id, extension, answers }
}

/// Reports whether a path or a body of a case has this placeholder.
fn mentions(case: &Case, placeholder: &str) -> bool {
    let in_template = |template: &Template| template.path.contains(placeholder) || template.body.contains(placeholder);
    case.steps.iter().any(|step| match &step.act {
        Act::Request(request) | Act::Watch { request, .. } => in_template(request),
        Act::Read { .. } => false,
    })
}

/// Returns the word of a case as groups of an IPv6 address.
pub(crate) fn as_address(id: &str) -> String {
    let groups: Vec<_> =
        id.as_bytes().chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:x}")).collect::<String>()).collect();
    groups.join(":")
}

struct Player<'a> {
    client: &'a Client,
    values: BTreeMap<String, String>,
    watches: BTreeMap<String, Watch>,
}

impl Player<'_> {
    /// Creates the namespace of the case, if the case uses it.
    async fn prepare(&self, case: &Case) -> Result<(), String> {
        if !mentions(case, "{ns}") {
            return Ok(());
        }
        let request = Request::post("/api/v1/namespaces").header("Content-Type", "application/json");
        let body = json!({"metadata": {"name": self.values["ns"]}}).to_string();
        let response = send(self.client, request.body(body.into()).map_err(|error| error.to_string())?).await?;
        match response.status() {
            StatusCode::CREATED => Ok(()),
            other => Err(format!("the namespace of the case: {other}")),
        }
    }

    /// Returns the result of a step, and the names of its FlowSchema and priority level.
    async fn step(&mut self, step: &Step) -> Result<(Seen, Option<String>), String> {
        let deadline = Instant::now() + PATIENCE;
        let (seen, flow) = loop {
            let seen = self.act(&step.act).await?;
            let flow = if step.flow { Some(flow::names(self.client, &seen).await?) } else { None };
            let schema = flow.as_deref().and_then(|flow| flow.split(' ').next());
            if step.until.iter().all(|until| until.holds(&seen, schema, |wanted| self.replace(wanted))) {
                break (seen, flow);
            }
            if Instant::now() > deadline {
                return Err(format!("not within {} s; last seen: {}", PATIENCE.as_secs(), seen.short()));
            }
            sleep(PAUSE).await;
        };
        if !step.takes.is_empty() {
            let value = seen.value().ok_or_else(|| format!("no JSON to take values from: {}", seen.short()))?;
            for (name, path) in &step.takes {
                let found = path.find(&value).into_iter().next();
                let found = found.ok_or_else(|| format!("no {} in {}", path.text(), seen.short()))?;
                self.values.insert(name.clone(), found.as_str().map_or_else(|| found.to_string(), str::to_owned));
            }
        }
        Ok((seen, flow))
    }

    async fn act(&mut self, act: &Act) -> Result<Seen, String> {
        match act {
            Act::Request(request) => whole(send(self.client, self.fill(request)?).await?).await,
            Act::Watch { name, request } => {
                let response = send(self.client, self.fill(request)?).await?;
                if response.status() != StatusCode::OK {
                    return whole(response).await;
                }
                let (head, body) = response.into_parts();
                self.watches.insert(name.clone(), Watch { body, rest: Vec::new() });
                Ok(Seen::Opened { head })
            }
            Act::Read { name, amount } => {
                let watch = self.watches.get_mut(name).ok_or_else(|| format!("no watch {name} is open"))?;
                watch.read(*amount).await
            }
        }
    }

    /// Returns the request with all placeholders filled in.
    fn fill(&self, template: &Template) -> Result<Request<Body>, String> {
        let mut request = Request::builder().method(template.method.clone()).uri(self.replace(&template.path));
        for (name, value) in &template.headers {
            request = request.header(name, self.replace(value));
        }
        let body = self.replace(&template.body);
        let body = match body.strip_prefix("hex:") {
            Some(digits) => bytes_of(digits)?,
            None => body.into_bytes(),
        };
        request.body(body.into()).map_err(|error| format!("{}: {error}", template.path))
    }

    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.values {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        while let Some((before, (what, count), after)) = repeat(&text) {
            text = [before, &what.repeat(count), after].concat();
        }
        text
    }
}

/// Splits the text around the first `{repeat x 100}`. Returns the repeated text and its count, too.
fn repeat(text: &str) -> Option<(&str, (&str, usize), &str)> {
    let (before, rest) = text.split_once("{repeat ")?;
    let (inside, after) = rest.split_once('}')?;
    let (what, count) = inside.split_once(' ')?;
    Some((before, (what, count.parse().ok()?), after))
}

fn bytes_of(digits: &str) -> Result<Vec<u8>, String> {
    let digits: String = digits.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("no hexadecimal digits: {digits}"))
}

async fn send(client: &Client, request: Request<Body>) -> Result<Response<Body>, String> {
    match timeout(ANSWER, client.request(request)).await {
        Ok(answer) => answer.map_err(|error| error.chain()),
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}

async fn whole(response: Response<Body>) -> Result<Seen, String> {
    let (head, body) = response.into_parts();
    match timeout(ANSWER, body.collect()).await {
        Ok(Ok(body)) => Ok(Seen::Response { head, body: body.to_bytes() }),
        Ok(Err(error)) => Err(format!("the body was cut off: {error}")),
        Err(_) => Err(format!("no whole body within {} s", ANSWER.as_secs())),
    }
}

impl Watch {
    async fn read(&mut self, amount: Amount) -> Result<Seen, String> {
        let mut events = Vec::new();
        let mut ended = false;
        let reading = async {
            while amount != Amount::Events(events.len()) {
                let Some(event) = self.next().await? else {
                    ended = true;
                    break;
                };
                let bookmark = event["type"] == "BOOKMARK";
                events.push(event);
                if bookmark && amount == Amount::Bookmark {
                    break;
                }
            }
            Ok(())
        };
        let outcome = timeout(ANSWER, reading).await;
        match outcome {
            Ok(Ok(())) => Ok(Seen::Events { events, ended }),
            Ok(Err(problem)) => Err(problem),
            Err(_) => {
                let mut seen = String::new();
                for event in &events {
                    let _ = write!(seen, "\n{event}");
                }
                Err(format!("not within {} s; what came:{seen}", ANSWER.as_secs()))
            }
        }
    }

    /// Returns the next event, or `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&line)));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(format!("the watch was cut off: {error}")),
                None if self.rest.is_empty() => return Ok(None),
                None => return Err(format!("half an event: {}", String::from_utf8_lossy(&self.rest))),
            }
        }
    }
}

impl Seen {
    /// Returns the JSON of the body, or of the last event.
    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Response { body, .. } => serde_json::from_slice(body).ok(),
            Self::Events { events, .. } => events.last().cloned(),
            Self::Opened { .. } | Self::Failed(_) => None,
        }
    }

    /// Sorts the causes of a failure, and its message, which is built from them.
    pub(crate) fn in_order_of_texts(&mut self) {
        let Self::Response { body, .. } = self else { return };
        let Ok(mut status) = serde_json::from_slice::<Value>(body) else { return };
        let mut lists = ["/details/causes", "/status/conditions"].iter().copied();
        let Some(list) = lists.find(|list| status.pointer(list).is_some_and(Value::is_array)) else { return };
        let Some(items) = status.pointer_mut(list).and_then(Value::as_array_mut).filter(|items| items.len() > 1) else {
            return;
        };
        items.sort_by_key(ToString::to_string);
        if let Some((start, _)) = status["message"].as_str().and_then(|message| message.split_once(" is invalid: [")) {
            status["message"] = format!("{start} is invalid: {{causes}}").into();
        }
        *body = status.to_string().into();
    }

    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Response { head, .. } if head.status.is_success())
    }

    fn short(&self) -> String {
        match self {
            Self::Response { head, body } => {
                let text = String::from_utf8_lossy(body);
                format!("{} {}", head.status, text.chars().take(600).collect::<String>())
            }
            other => format!("{other:?}"),
        }
    }
}

impl Until {
    fn holds(&self, seen: &Seen, schema: Option<&str>, fill: impl Fn(&str) -> String) -> bool {
        match (self, seen) {
            (Self::Flow(wanted), _) => schema == Some(&*fill(wanted)),
            (Self::Status(wanted), Seen::Response { head, .. } | Seen::Opened { head }) => head.status == *wanted,
            (Self::Value(path, wanted), seen) => {
                let (path, wanted) = (path.filled(&fill), fill(wanted));
                seen.value().is_some_and(|value| path.find(&value).iter().any(|found| is(found, &wanted)))
            }
            (Self::Part(path, wanted), seen) => {
                let (path, wanted) = (path.filled(&fill), fill(wanted));
                let holds = |found: &&Value| found.as_str().is_some_and(|text| text.contains(&wanted));
                seen.value().is_some_and(|value| path.find(&value).iter().any(holds))
            }
            _ => false,
        }
    }
}
