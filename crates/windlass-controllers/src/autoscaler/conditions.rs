//! Conditions of an autoscaler.

use jiff::Timestamp;
use k8s_openapi::{api::autoscaling::v2::HorizontalPodAutoscalerCondition, apimachinery::pkg::apis::meta::v1::Time};

/// Sets the condition of a type. An unchanged status keeps its transition time.
pub(super) fn set(
    conditions: &mut Vec<HorizontalPodAutoscalerCondition>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let at = conditions.iter().position(|known| known.type_ == type_).unwrap_or_else(|| {
        conditions.push(HorizontalPodAutoscalerCondition { type_: type_.to_owned(), ..Default::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition.status != status {
        status.clone_into(&mut condition.status);
        condition.last_transition_time = Some(Time(now));
    }
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_as_long_as_it_keeps_its_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        for (second, holds, reason) in [(1, true, "A"), (2, true, "B"), (3, false, "C")] {
            set(&mut conditions, "AbleToScale", holds, reason, "m".to_owned(), at(second));
        }
        set(&mut conditions, "ScalingActive", true, "D", "m".to_owned(), at(4));
        set(&mut conditions, "AbleToScale", false, "E", "m".to_owned(), at(5));
        let told: Vec<_> = conditions
            .iter()
            .map(|told| (&*told.status, told.reason.as_deref().unwrap(), told.last_transition_time.as_ref().unwrap().0))
            .collect();
        assert_eq!(told, [("False", "E", at(3)), ("True", "D", at(4))]);
    }
}
