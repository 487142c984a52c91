//! The text form of plans.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{ChangeVerb, Edit, Effect, Fault, Mutation, Plan, Point, Refusal, Scope, Side};

/// The text of a plan without faults.
const NONE: &str = "none";
/// The separator of faults.
const AND: &str = " & ";
/// The scope of a rewind of all resources. No resource has this name.
const ALL: &str = "all";
const EFFECTS: &str = "crash, lost-response, stalled, refused(CODE), delayed, conflict, deposed, lag, gap(until POINT), \
     rewind(RESOURCE or all,before or after POINT)";
const POINT: &str = "STEP:VERB:RESOURCE/NAMESPACE/NAME[:FIELD+FIELD…][#NUMBER]";
const MUTATION: &str = "set(PATH,JSON), append(PATH,JSON), remove(PATH) or reverse(PATH), and @RESOURCE/NAMESPACE/NAME";

/// An error in the text of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plan {text:?}: {reason}")]
pub struct PlanError {
    text: String,
    reason: String,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = match self {
            Self::Faults(faults) if faults.is_empty() => return f.write_str(NONE),
            Self::Faults(faults) => faults,
            Self::Mutation(mutation) => return write!(f, "{mutation}"),
        };
        for (index, fault) in faults.iter().enumerate() {
            if index > 0 {
                f.write_str(AND)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name, path, edit } = self;
        write!(f, "{}(", edit.name())?;
        for (index, name) in path.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { "/" }, Encoded(name))?;
        }
        if let Edit::Set(value) | Edit::Append(value) = edit {
            write!(f, ",{}", EncodedJson(&value.to_string()))?;
        }
        write!(f, ")@{}/", Encoded(resource))?;
        if !namespace.is_empty() {
            write!(f, "{}/", Encoded(namespace))?;
        }
        write!(f, "{}", Encoded(name))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.effect, self.point)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Refused(refusal) => write!(f, "({})", refusal.code()),
            Self::Gap { until } => write!(f, "(until {until})"),
            Self::Rewind { scope, side, to } => write!(f, "({scope},{} {to})", side.as_str()),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(resource) => write!(f, "{}", Encoded(resource)),
            Self::All => f.write_str(ALL),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}/", self.step, self.verb.as_str(), Encoded(&self.resource))?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", Encoded(&self.namespace))?;
        }
        write!(f, "{}", Encoded(&self.name))?;
        for (index, field) in self.fields.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { ':' } else { '+' }, Encoded(field))?;
        }
        if self.occurrence == 1 { Ok(()) } else { write!(f, "#{}", self.occurrence) }
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text == NONE {
            return Ok(Self::default());
        }
        let plan = match text.split_once('(') {
            Some((edit @ ("set" | "append" | "remove" | "reverse"), rest)) => {
                parse_mutation(edit, rest).map(Self::Mutation)
            }
            _ => text.split(AND).map(|fault| parse_fault(fault.trim())).collect::<Result<_, _>>().map(Self::Faults),
        };
        plan.map_err(|reason| PlanError { text: text.to_owned(), reason })
    }
}

impl FromStr for Point {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_point(text.trim()).map_err(|reason| PlanError { text: text.to_owned(), reason })
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    // The points in the arguments of an effect have no `@`, because it is encoded in names.
    let (effect, point) =
        text.split_once('@').ok_or_else(|| format!("{text:?} has no `@`: expected EFFECT@{POINT}"))?;
    Ok(Fault { effect: parse_effect(effect)?, point: parse_point(point)? })
}

fn parse_effect(text: &str) -> Result<Effect, String> {
    let unknown = || format!("unknown effect {text:?}: expected one of {EFFECTS}");
    let (name, argument) = match text.split_once('(') {
        Some((name, rest)) => {
            (name, Some(rest.strip_suffix(')').ok_or_else(|| format!("{text:?} has no closing parenthesis"))?))
        }
        None => (text, None),
    };
    match (name, argument) {
        ("crash", None) => Ok(Effect::Crash),
        ("lost-response", None) => Ok(Effect::LostResponse),
        ("stalled", None) => Ok(Effect::Stalled),
        ("delayed", None) => Ok(Effect::Delayed),
        ("conflict", None) => Ok(Effect::Conflict),
        ("deposed", None) => Ok(Effect::Deposed),
        ("lag", None) => Ok(Effect::Lag),
        ("refused", Some(code)) => parse_refusal(code).map(Effect::Refused),
        ("gap", Some(until)) => {
            let point = until.strip_prefix("until ").ok_or_else(unknown)?;
            Ok(Effect::Gap { until: parse_point(point)? })
        }
        ("rewind", Some(argument)) => {
            let (scope, rest) = argument.split_once(',').ok_or_else(unknown)?;
            let (side, to) = rest.trim().split_once(' ').ok_or_else(unknown)?;
            let side = match side {
                "before" => Side::Before,
                "after" => Side::After,
                side => return Err(format!("{side:?} is not `before` or `after`")),
            };
            let scope = if scope == ALL { Scope::All } else { Scope::Resource(decoded(scope)?) };
            Ok(Effect::Rewind { scope, side, to: parse_point(to)? })
        }
        _ => Err(unknown()),
    }
}

fn parse_refusal(code: &str) -> Result<Refusal, String> {
    let all = [Refusal::Conflict, Refusal::TooManyRequests, Refusal::InternalError, Refusal::GatewayTimeout];
    let refusal = all.into_iter().find(|refusal| refusal.code().to_string() == code);
    refusal.ok_or_else(|| format!("{code:?} is not one of the codes 409, 429, 500, 504"))
}

fn parse_point(text: &str) -> Result<Point, String> {
    let wrong = |part: &str| format!("{part} in the point {text:?}: expected {POINT}");
    let (content, occurrence) = match text.rsplit_once('#') {
        Some((content, number)) => {
            let number = number.parse().ok().filter(|number| *number > 0);
            (content, number.ok_or_else(|| wrong("invalid number"))?)
        }
        None => (text, 1),
    };
    let mut parts = content.split(':');
    let mut part = |name: &str| parts.next().ok_or_else(|| wrong(name));
    let step = part("no step")?.parse().map_err(|_| wrong("invalid step"))?;
    let verb = match part("no verb")? {
        "create" => ChangeVerb::Create,
        "update" => ChangeVerb::Update,
        "delete" => ChangeVerb::Delete,
        _ => return Err(wrong("unknown verb")),
    };
    let [resource, namespace, name] = parse_object(part("no object")?)?.ok_or_else(|| wrong("invalid object"))?;
    if resource.is_empty() || name.is_empty() {
        return Err(wrong("no object"));
    }
    let fields = match parts.next() {
        Some(fields) => fields.split('+').map(decoded).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    if parts.next().is_some() {
        return Err(wrong("too many parts"));
    }
    Ok(Point { step, verb, resource, namespace, name, fields, occurrence })
}

/// Returns the resource, the namespace and the name of an object; `None` if the text has too few or too many parts.
fn parse_object(text: &str) -> Result<Option<[String; 3]>, String> {
    let parts: Vec<_> = text.split('/').map(decoded).collect::<Result<_, _>>()?;
    Ok(match &parts[..] {
        [resource, name] => Some([resource.clone(), String::new(), name.clone()]),
        [resource, namespace, name] => Some([resource.clone(), namespace.clone(), name.clone()]),
        _ => None,
    })
}

/// Parses the text of a mutation after the name of the edit.
fn parse_mutation(edit: &str, rest: &str) -> Result<Mutation, String> {
    let wrong = |what: &str| format!("{what}: expected {MUTATION}");
    // The names of objects have no `@`, because it is encoded.
    let (argument, object) = rest.rsplit_once(")@").ok_or_else(|| wrong("no object"))?;
    let object = parse_object(object)?.filter(|[resource, _, name]| !resource.is_empty() && !name.is_empty());
    let [resource, namespace, name] = object.ok_or_else(|| wrong("invalid object"))?;
    let (path, value) = match argument.split_once(',') {
        Some((path, value)) => (path, Some(value)),
        None => (argument, None),
    };
    let json = |value: &str| {
        let value = decoded(value)?;
        let value: serde_json::Value =
            serde_json::from_str(&value).map_err(|error| wrong(&format!("value: {error}")))?;
        Ok::<_, String>((&value).into())
    };
    let edit = match (edit, value) {
        ("set", Some(value)) => Edit::Set(json(value)?),
        ("append", Some(value)) => Edit::Append(json(value)?),
        ("remove", None) => Edit::Remove,
        ("reverse", None) => Edit::Reverse,
        (_, Some(_)) => return Err(wrong("unexpected value")),
        (_, None) => return Err(wrong("no value")),
    };
    if path.is_empty() {
        return Err(wrong("no path"));
    }
    let path = path.split('/').map(decoded).collect::<Result<_, _>>()?;
    Ok(Mutation { resource, namespace, name, path, edit })
}

/// JSON with percent-encoded characters that a shell or a line cannot contain.
struct EncodedJson<'t>(&'t str);

impl fmt::Display for EncodedJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, self.0, "%'")
    }
}

/// A text with percent-encoded characters of the syntax.
struct Encoded<'t>(&'t str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, self.0, "%@:/#+,()&'\"")
    }
}

/// Writes a text with percent-encoded white space, control characters and the `special` ones.
fn encode(f: &mut fmt::Formatter<'_>, text: &str, special: &str) -> fmt::Result {
    for character in text.chars() {
        if special.contains(character) || character.is_whitespace() || character.is_control() {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                write!(f, "%{byte:02X}")?;
            }
        } else {
            write!(f, "{character}")?;
        }
    }
    Ok(())
}

fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("invalid percent-encoding in {text:?}");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(wrong);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits are a byte"));
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Plan>().unwrap_err().to_string()
    }

    #[test]
    fn plans_have_the_documented_text() {
        let texts = [
            "none",
            "crash@2:update:statefulsets.apps/default/db:spec.replicas",
            "lost-response@1:create:pods/default/web-*#2",
            "refused(504)@0:delete:nodes/n1",
            "gap(until 2:delete:pods/default/web-0)@2:update:pods/default/web-0:metadata.deletionTimestamp+status.phase",
            "rewind(pods,before 2:delete:pods/default/web-0)@2:create:pods/default/web-0",
            "rewind(all,after 2:delete:pods/default/web-0#3)@2:create:pods/default/web-0 & lag@3:delete:pods/default/a",
        ];
        for text in texts {
            let plan: Plan = text.parse().unwrap();
            assert_eq!(plan.to_string(), text);
        }
        let plan: Plan = texts[2].parse().unwrap();
        let Fault { point, effect } = &plan.faults()[0];
        assert_eq!(*effect, Effect::LostResponse);
        assert_eq!((point.step, point.verb, point.occurrence), (1, ChangeVerb::Create, 2));
        assert_eq!((point.namespace.as_str(), point.name.as_str()), ("default", "web-*"));
    }

    #[test]
    fn odd_characters_survive_a_round_trip() {
        let odd = "system:a@b#1 & c(d),e+f%'é\u{a0}\"";
        let point = Point {
            step: 1,
            verb: ChangeVerb::Update,
            resource: "clusterroles.rbac.authorization.k8s.io".to_owned(),
            namespace: String::new(),
            name: odd.to_owned(),
            fields: vec!["data.a/b".to_owned(), format!("spec.{odd}")],
            occurrence: 7,
        };
        let effects = [
            Effect::Gap { until: point.clone() },
            Effect::Rewind { scope: Scope::Resource(odd.to_owned()), side: Side::After, to: point.clone() },
            Effect::Refused(Refusal::Conflict),
            Effect::Stalled,
            Effect::Delayed,
            Effect::Conflict,
            Effect::Deposed,
        ];
        let plan = Plan::Faults(effects.map(|effect| Fault { point: point.clone(), effect }).into());
        assert_eq!(plan.to_string().parse::<Plan>().as_ref(), Ok(&plan));
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }

    #[test]
    fn mutations_have_the_documented_text() {
        let texts = [
            "set(spec/replicas,3)@websites.example.dev/default/site",
            r#"append(spec/pages,{"title":"a,b","n":[1]})@websites.example.dev/default/site"#,
            "remove(spec/labels/example.dev%2Frole)@nodesets.example.dev/all",
            "reverse(spec/pages)@websites.example.dev/default/site",
        ];
        for text in texts {
            let plan: Plan = text.parse().unwrap();
            assert_eq!(plan.to_string(), text);
            assert!(plan.mutation().is_some() && plan.faults().is_empty() && !plan.is_empty());
        }
        let plan: Plan = texts[2].parse().unwrap();
        assert_eq!(plan.mutation().unwrap().path, ["spec", "labels", "example.dev/role"]);
        assert_eq!(plan.mutation().unwrap().namespace, "");
    }

    #[test]
    fn values_of_mutations_survive_a_round_trip() {
        let values = [
            serde_json::json!("it's 100% a \"b\" & c)@d, (e)\n\u{a0}\u{7f}"),
            serde_json::json!({"a)@b/c": null, "x": [1.5, -2, true]}),
            serde_json::json!(""),
        ];
        for value in values {
            for edit in [Edit::Set((&value).into()), Edit::Append((&value).into())] {
                let (resource, namespace, name) = ("a.b".to_owned(), "c".to_owned(), "d".to_owned());
                let path = vec!["odd /,()@'".to_owned(), "0".to_owned()];
                let plan = Plan::Mutation(Mutation { resource, namespace, name, path, edit });
                let text = plan.to_string();
                assert_eq!(text.parse::<Plan>().as_ref(), Ok(&plan), "{text}");
                assert!(!text.contains([' ', '\'', '\n']), "{text}");
            }
        }
    }

    #[test]
    fn errors_of_mutations_name_the_wrong_part() {
        assert!(error("set(spec/a,1)").contains("no object: expected set(PATH,JSON)"));
        assert!(error("set(spec/a)@b.c/d/e").contains("no value"));
        assert!(error("set(spec/a,{)@b.c/d/e").contains("value: "));
        assert!(error("remove(spec/a,1)@b.c/d/e").contains("unexpected value"));
        assert!(error("remove()@b.c/d/e").contains("no path"));
        assert!(error("reverse(spec/a)@b.c").contains("invalid object"));
    }

    #[test]
    fn errors_name_the_wrong_part() {
        assert!(error("melt@1:create:pods/a/b").contains(r#"unknown effect "melt": expected one of crash, "#));
        assert!(error("crash").contains("has no `@`"));
        assert!(error("crash@x:create:pods/a/b").contains("invalid step in the point"));
        assert!(error("crash@1:make:pods/a/b").contains("unknown verb"));
        assert!(error("crash@1:create:pods").contains("invalid object"));
        assert!(error("crash@1:create:pods/a/b#0").contains("invalid number"));
        assert!(error("crash@1:create:pods/a/b:c:d").contains("too many parts"));
        assert!(error("crash@1:create:pods/a/%4").contains("invalid percent-encoding"));
        assert!(error("refused(403)@1:create:pods/a/b").contains("409, 429, 500, 504"));
        assert!(error("rewind(pods,at 1:create:pods/a/b)@1:create:pods/a/b").contains("`before` or `after`"));
        assert!(error("gap(until 1:create:pods/a/b@1:create:pods/a/b").contains("closing parenthesis"));
        assert!(error("").contains("has no `@`"));
    }
}
