//! Label selectors in the format of Go's messages.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Formats a selector as Go prints it.
pub(crate) fn as_go_shows(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},"));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.as_deref().unwrap_or_default().join(" ");
        let (key, operator) = (&expression.key, &expression.operator);
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let (labels, expressions): (String, String) = (labels.collect(), expressions.collect());
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_shown_as_go_shows_it() {
        let shown = |selector: serde_json::Value| as_go_shows(Some(&serde_json::from_value(selector).unwrap()));
        assert_eq!(as_go_shows(None), "nil");
        assert_eq!(
            shown(json!({"matchLabels": {"a": "b"}})),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
        assert_eq!(
            shown(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]})),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[b c],},},}"
        );
    }
}
