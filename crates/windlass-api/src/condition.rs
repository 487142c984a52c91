//! `status.conditions`: setting, finding and removing conditions by type.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::Clock;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is unknown whether the condition holds.
    Unknown,
}

/// A condition as set by a controller. The transition time is not part of it, because it follows from the previous
/// condition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is stated before it is set"]
pub struct NewCondition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

/// The result of a call that may change conditions. It may be ignored: a status write compares the whole status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The call made a change.
    Yes,
    /// The call made no change.
    No,
}

/// The conditions of a status.
///
/// ```
/// # #![deny(unused_must_use)]
/// use windlass_api::{Changed, Clock, ConditionStatus, Conditions as _, NewCondition};
/// # use windlass_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
///
/// let mut conditions: Vec<Condition> = Vec::new();
/// let ready = NewCondition::new("Ready", ConditionStatus::True, "Deployed").message("3 of 3 replicas").observed(7);
/// assert_eq!(conditions.set(ready.clone(), &Clock::system()), Changed::Yes);
/// assert_eq!(conditions.set(ready.clone(), &Clock::system()), Changed::No);
/// conditions.set(ready, &Clock::system()); // the result may be ignored
/// assert!(conditions.is_true("Ready"));
/// ```
pub trait Conditions {
    /// Returns the condition of this type.
    fn find(&self, type_: &str) -> Option<&Condition>;

    /// Sets a condition. The transition time becomes the current time if the condition is new or its status has
    /// changed; otherwise it is retained.
    fn set(&mut self, condition: NewCondition, clock: &Clock) -> Changed;

    /// Removes the condition of this type.
    fn remove_type(&mut self, type_: &str) -> Changed;

    /// Reports whether the condition of this type exists with this status.
    fn has_status(&self, type_: &str, status: ConditionStatus) -> bool {
        self.find(type_).is_some_and(|condition| condition.status == status.as_str())
    }

    /// Reports whether the condition of this type exists and is true.
    fn is_true(&self, type_: &str) -> bool {
        self.has_status(type_, ConditionStatus::True)
    }

    /// Reports whether the condition of this type exists and is false.
    fn is_false(&self, type_: &str) -> bool {
        self.has_status(type_, ConditionStatus::False)
    }
}

impl ConditionStatus {
    /// Returns the API's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl NewCondition {
    /// Creates a condition with its type, status and reason. The reason is a CamelCase word.
    pub fn new(type_: impl Into<String>, status: impl Into<ConditionStatus>, reason: impl Into<String>) -> Self {
        let (type_, status, reason) = (type_.into(), status.into(), reason.into());
        Self { type_, status, reason, message: String::new(), observed_generation: None }
    }

    /// Sets the human-readable message.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the observed generation: that of the object for which the condition was determined.
    pub const fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    fn since(self, last_transition_time: Time) -> Condition {
        Condition {
            last_transition_time,
            message: self.message,
            observed_generation: self.observed_generation,
            reason: self.reason,
            status: self.status.as_str().to_owned(),
            type_: self.type_,
        }
    }
}

impl Conditions for Vec<Condition> {
    fn find(&self, type_: &str) -> Option<&Condition> {
        self.iter().find(|condition| condition.type_ == type_)
    }

    fn set(&mut self, condition: NewCondition, clock: &Clock) -> Changed {
        let Some(current) = self.iter_mut().find(|current| current.type_ == condition.type_) else {
            self.push(condition.since(Time(clock.now())));
            return Changed::Yes;
        };
        let is_transition = current.status != condition.status.as_str();
        let since = if is_transition { Time(clock.now()) } else { current.last_transition_time.clone() };
        let condition = condition.since(since);
        if *current == condition {
            return Changed::No;
        }
        *current = condition;
        Changed::Yes
    }

    fn remove_type(&mut self, type_: &str) -> Changed {
        let before = self.len();
        self.retain(|condition| condition.type_ != type_);
        if self.len() == before { Changed::No } else { Changed::Yes }
    }
}

/// `status.conditions` is usually an `Option`; `None` is treated as an empty list.
impl Conditions for Option<Vec<Condition>> {
    fn find(&self, type_: &str) -> Option<&Condition> {
        self.iter().flatten().find(|condition| condition.type_ == type_)
    }

    fn set(&mut self, condition: NewCondition, clock: &Clock) -> Changed {
        self.get_or_insert_default().set(condition, clock)
    }

    fn remove_type(&mut self, type_: &str) -> Changed {
        self.as_mut().map_or(Changed::No, |conditions| conditions.remove_type(type_))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Clock {
        Clock::from_fn(move || Timestamp::from_second(second).unwrap())
    }

    fn ready(status: bool, reason: &str) -> NewCondition {
        NewCondition::new("Ready", status, reason)
    }

    fn since(conditions: &Vec<Condition>) -> i64 {
        conditions.find("Ready").unwrap().last_transition_time.0.as_second()
    }

    #[test]
    fn the_time_changes_with_the_status_only() {
        let mut conditions = Vec::new();
        assert_eq!(conditions.set(ready(true, "A"), &at(1)), Changed::Yes);
        assert_eq!(conditions.set(ready(true, "A"), &at(2)), Changed::No);
        assert_eq!(conditions.set(ready(true, "B").message("m").observed(3), &at(3)), Changed::Yes);
        assert_eq!((since(&conditions), conditions[0].reason.as_str()), (1, "B"));
        assert_eq!(conditions[0].observed_generation, Some(3));
        assert_eq!(conditions.set(ready(false, "B"), &at(4)), Changed::Yes);
        assert_eq!((since(&conditions), conditions.len()), (4, 1));
    }

    #[test]
    fn missing_condition_is_neither_true_nor_false() {
        let mut conditions = None;
        assert!(!conditions.is_true("Ready") && !conditions.is_false("Ready"));
        assert_eq!(conditions.remove_type("Ready"), Changed::No);
        conditions.set(NewCondition::new("Ready", ConditionStatus::Unknown, "A"), &at(1));
        assert!(!conditions.is_true("Ready") && !conditions.is_false("Ready"));
        assert!(conditions.has_status("Ready", ConditionStatus::Unknown));
        assert_eq!(conditions.remove_type("Ready"), Changed::Yes);
        assert_eq!(conditions, Some(Vec::new()));
    }
}
