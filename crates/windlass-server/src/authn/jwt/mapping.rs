//! The user of a token: claim mappings and validation rules.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_cel::{Expected, LIMIT_PER_CALL, Program};

use super::{
    Claims,
    configuration::{JwtAuthenticator, PrefixedClaim, Variable, compile},
};
use crate::identity::User;

/// The compiled mappings and rules of an issuer.
#[derive(Debug)]
pub(super) struct Mapping {
    username: Source,
    groups: Source,
    uid: Source,
    extra: Vec<(String, Expression)>,
    /// Claims and their required values.
    required: Vec<(String, String)>,
    claim_rules: Vec<Rule>,
    user_rules: Vec<Rule>,
}

/// The source of a field of the user.
#[derive(Debug)]
enum Source {
    None,
    Claim { name: String, prefix: String },
    Expression(Box<Expression>),
}

#[derive(Debug)]
struct Expression {
    text: String,
    program: Program,
}

#[derive(Debug)]
struct Rule {
    expression: Expression,
    message: String,
}

impl Expression {
    /// Compiles an expression, which was validated.
    fn new(variable: Variable, text: &str, expected: Expected) -> Option<Self> {
        let program = compile(variable, text, expected).ok()?;
        Some(Self { text: text.to_owned(), program })
    }

    fn value(&self, claims: &Value) -> Result<Option<Value>, String> {
        let evaluated = self.program.value(&[("claims", Some(claims))], LIMIT_PER_CALL).result;
        evaluated.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }
}

impl Rule {
    fn check(&self, variable: &str, value: &Value) -> Result<(), String> {
        let Expression { text, program } = &self.expression;
        match program.condition(&[(variable, Some(value))], LIMIT_PER_CALL).result {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("validation expression '{text}' failed: {}", self.message)),
            Err(error) => Err(format!("expression '{text}' resulted in error: {error}")),
        }
    }
}

impl Source {
    fn prefixed(claim: &PrefixedClaim) -> Self {
        Self::new(&claim.claim, claim.prefix.as_deref(), &claim.expression)
    }

    fn new(claim: &str, prefix: Option<&str>, expression: &str) -> Self {
        if !claim.is_empty() {
            return Self::Claim { name: claim.to_owned(), prefix: prefix.unwrap_or_default().to_owned() };
        }
        Expression::new(Variable::Claims, expression, Expected::Any)
            .map_or(Self::None, |expression| Self::Expression(Box::new(expression)))
    }
}

impl Mapping {
    /// Compiles the mappings and rules of a valid configuration.
    pub(super) fn new(configured: &JwtAuthenticator) -> Self {
        let mappings = &configured.claim_mappings;
        let rule = |variable, text: &str, message: &str| {
            Some(Rule { expression: Expression::new(variable, text, Expected::Bool)?, message: message.to_owned() })
        };
        let claim_rules = &configured.claim_validation_rules;
        let extra = mappings.extra.iter().filter_map(|extra| {
            let expression = Expression::new(Variable::Claims, &extra.value_expression, Expected::Any)?;
            Some((extra.key.clone(), expression))
        });
        let required = claim_rules.iter().filter(|rule| !rule.claim.is_empty());
        Self {
            username: Source::prefixed(&mappings.username),
            groups: Source::prefixed(&mappings.groups),
            uid: Source::new(&mappings.uid.claim, None, &mappings.uid.expression),
            extra: extra.collect(),
            required: required.map(|rule| (rule.claim.clone(), rule.required_value.clone())).collect(),
            claim_rules: claim_rules
                .iter()
                .filter(|rule| rule.claim.is_empty())
                .filter_map(|found| rule(Variable::Claims, &found.expression, &found.message))
                .collect(),
            user_rules: configured
                .user_validation_rules
                .iter()
                .filter_map(|found| rule(Variable::User, &found.expression, &found.message))
                .collect(),
        }
    }

    /// Returns the user of a token with these claims. Errors are in kube-apiserver's words.
    pub(super) fn user(&self, claims: Claims) -> Result<User, String> {
        self.reject_distributed(&claims)?;
        let json = Value::Object(claims);
        let Value::Object(claims) = &json else { return Err("oidc: parse claims".to_owned()) };
        let visible = with_aliases(&json, &mut CLAIM_VALUES.clone())?;
        let name = self.name(claims, &visible)?;
        let groups = self.groups(claims, &visible)?;
        let uid = self.uid(claims, &visible)?;
        let extra = self.extra(claims, &visible)?;
        for (claim, expected) in &self.required {
            if !claims.contains_key(claim) {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let found = text(claims, claim).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if found != *expected {
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {found}, want = {expected}"
                ));
            }
        }
        for rule in &self.claim_rules {
            let checked = rule.check("claims", &visible);
            checked.map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
        }
        if !self.user_rules.is_empty() {
            let user = json!({"username": name, "uid": uid, "groups": groups, "extra": extra});
            for rule in &self.user_rules {
                let checked = rule.check("user", &user);
                checked.map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
            }
        }
        let mut user = User::new(name).in_groups(groups).with_uid(uid);
        user.extra = extra;
        Ok(user)
    }

    /// Rejects a token whose groups are at another URL, because its user would lack them.
    fn reject_distributed(&self, claims: &Claims) -> Result<(), String> {
        let Source::Claim { name, .. } = &self.groups else { return Ok(()) };
        let elsewhere = claims.get("_claim_names").and_then(|names| names.get(name));
        if elsewhere.is_some() && !claims.contains_key(name) {
            return Err("oidc: could not expand distributed claims: they are not supported".to_owned());
        }
        Ok(())
    }

    fn name(&self, claims: &Claims, visible: &Value) -> Result<String, String> {
        match &self.username {
            Source::None => Err("oidc: no username mapping".to_owned()),
            Source::Expression(expression) => {
                let failed = |why: String| format!("oidc: error evaluating username claim expression: {why}");
                match expression.value(visible).map_err(failed)? {
                    Some(Value::String(name)) if name.is_empty() => {
                        Err("oidc: empty username via CEL expression is not allowed".to_owned())
                    }
                    Some(Value::String(name)) => Ok(name),
                    _ => Err(failed("username claim expression must return a string".to_owned())),
                }
            }
            Source::Claim { name, prefix } => {
                let found = text(claims, name).map_err(|why| format!("oidc: parse username claims {name:?}: {why}"))?;
                if name == "email"
                    && let Some(verified) = claims.get("email_verified")
                {
                    match verified {
                        Value::Bool(true) => {}
                        Value::Bool(false) | Value::Null => return Err("oidc: email not verified".to_owned()),
                        other => {
                            let why = unlike(other, "bool");
                            return Err(format!("oidc: parse 'email_verified' claim: {why}"));
                        }
                    }
                }
                Ok(format!("{prefix}{found}"))
            }
        }
    }

    fn groups(&self, claims: &Claims, visible: &Value) -> Result<Vec<String>, String> {
        match &self.groups {
            Source::None => Ok(Vec::new()),
            Source::Claim { name, prefix } => {
                let groups: Vec<String> = match claims.get(name) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                    }
                    Some(_) => {
                        let group = text(claims, name);
                        vec![group.map_err(|why| format!("oidc: parse groups claim {name:?}: {why}"))?]
                    }
                };
                Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
            Source::Expression(expression) => {
                let groups = expression.value(visible).and_then(|value| texts(value.as_ref()));
                groups.map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))
            }
        }
    }

    fn uid(&self, claims: &Claims, visible: &Value) -> Result<String, String> {
        match &self.uid {
            Source::None => Ok(String::new()),
            Source::Claim { name, .. } => {
                text(claims, name).map_err(|why| format!("oidc: parse uid claim {name:?}: {why}"))
            }
            Source::Expression(expression) => {
                let failed = |why: String| format!("oidc: error evaluating uid claim expression: {why}");
                match expression.value(visible).map_err(failed)? {
                    Some(Value::String(uid)) => Ok(uid),
                    _ => Err(failed("uid claim expression must return a string".to_owned())),
                }
            }
        }
    }

    fn extra(&self, claims: &Claims, visible: &Value) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.extra {
            let value = expression.value(visible)?;
            let values = texts(value.as_ref())
                .map_err(|why| format!("oidc: error evaluating extra claim expression: {}: {why}", expression.text))?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        Ok(extra)
    }
}

/// The values that the claims of a token can have with the aliases. Each alias is a copy, so nested ones multiply.
const CLAIM_VALUES: usize = 10_000;

/// Returns the claims as expressions see them: a name that expressions must escape also exists in its escaped form, unless
/// a claim has that name. Returns an error for more values than `left`.
fn with_aliases(value: &Value, left: &mut usize) -> Result<Value, String> {
    *left = left.checked_sub(1).ok_or("oidc: parse claims: too many values")?;
    Ok(match value {
        Value::Object(fields) => {
            let mut visible = serde_json::Map::new();
            for (name, value) in fields {
                if let Some(alias) = windlass_cel::escape(name).filter(|alias| !fields.contains_key(&**alias)) {
                    visible.insert(alias, with_aliases(value, left)?);
                }
                visible.insert(name.clone(), with_aliases(value, left)?);
            }
            Value::Object(visible)
        }
        Value::Array(items) => items.iter().map(|item| with_aliases(item, left)).collect::<Result<_, _>>()?,
        other => other.clone(),
    })
}

/// Returns a claim as text. Errors are those of Go's decoder.
fn text(claims: &Claims, name: &str) -> Result<String, String> {
    match claims.get(name) {
        None => Err("claim not present".to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Null) => Ok(String::new()),
        Some(other) => Err(unlike(other, "string")),
    }
}

fn unlike(found: &Value, expected: &str) -> String {
    let found = match found {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) | Value::Null => "string",
    };
    format!("json: cannot unmarshal {found} into Go value of type {expected}")
}

/// Returns the texts of an expression's value: a text or a list of texts. Empty texts are omitted.
fn texts(value: Option<&Value>) -> Result<Vec<String>, String> {
    let wrong = || Err("expression must return a string or a list of strings".to_owned());
    match value {
        Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty()).into_iter().collect()),
        Some(Value::Array(items)) => {
            if !items.iter().all(Value::is_string) {
                return wrong();
            }
            Ok(items.iter().filter_map(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned).collect())
        }
        _ => wrong(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_of_nested_claims_are_limited() {
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!({"a-b": inner}));
        let visible = |value: &Value| with_aliases(value, &mut CLAIM_VALUES.clone());
        assert_eq!(visible(&nested(1)).unwrap(), json!({"a__dash__b": 1, "a-b": 1}));
        assert!(visible(&nested(8)).is_ok());
        assert_eq!(visible(&nested(60)).unwrap_err(), "oidc: parse claims: too many values");
    }

    #[test]
    fn claim_has_precedence_over_the_alias_of_another() {
        let claims = json!({"a-b": "alias", "a__dash__b": "claim"});
        assert_eq!(with_aliases(&claims, &mut CLAIM_VALUES.clone()).unwrap()["a__dash__b"], "claim");
    }
}
