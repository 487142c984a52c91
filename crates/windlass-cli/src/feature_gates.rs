//! The flag for features that are off by default, with the names of kube-apiserver.

use clap::Args;
use windlass_server::ServerBuilder;

/// CBOR for objects.
const CBOR: &str = "CBORServingAndStorage";

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FeatureGates {
    /// Features of kube-apiserver to enable: CBORServingAndStorage=true lets clients read and write objects in CBOR
    /// (objects are stored as before)
    #[arg(long, value_name = "NAME=BOOL,...", value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<Gate>,
}

/// A feature, and whether it is enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gate {
    name: String,
    is_enabled: bool,
}

impl FeatureGates {
    /// Reads the gates that concern this server; it has no others. Ignores those.
    pub(crate) fn lenient<'g>(gates: impl Iterator<Item = &'g str>) -> Self {
        Self { feature_gates: gates.filter_map(|text| gate(text).ok()).collect() }
    }

    pub(crate) fn apply(&self, server: ServerBuilder) -> ServerBuilder {
        // The last value of a gate counts.
        match self.feature_gates.iter().rfind(|gate| gate.name == CBOR) {
            Some(gate) => server.cbor(gate.is_enabled),
            None => server,
        }
    }
}

/// Parses `NAME=BOOL`.
fn gate(text: &str) -> Result<Gate, String> {
    let (name, value) = text.trim().split_once('=').ok_or_else(|| format!("missing bool value for {text}"))?;
    if name != CBOR {
        return Err(format!("unrecognized feature gate: {name}; the only one is {CBOR}"));
    }
    let is_enabled = value
        .parse()
        .map_err(|_| format!("invalid value {value:?} of the feature gate {name}: expected true or false"))?;
    Ok(Gate { name: name.to_owned(), is_enabled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_a_known_name_and_a_value() {
        assert_eq!(gate("CBORServingAndStorage=true").map(|gate| gate.is_enabled), Ok(true));
        assert_eq!(gate("CBORServingAndStorage=false").map(|gate| gate.is_enabled), Ok(false));
        assert_eq!(gate("CBORServingAndStorage").unwrap_err(), "missing bool value for CBORServingAndStorage");
        assert!(gate("CBORServingAndStorage=1").unwrap_err().ends_with("expected true or false"));
        let unknown = gate("CBOR=true").unwrap_err();
        assert_eq!(unknown, "unrecognized feature gate: CBOR; the only one is CBORServingAndStorage");
    }

    #[test]
    fn gates_of_other_features_are_ignored_in_a_stand_in() {
        let gates = FeatureGates::lenient(["A=true", "CBORServingAndStorage=true"].into_iter());
        assert_eq!(gates.feature_gates, [Gate { name: CBOR.to_owned(), is_enabled: true }]);
    }
}
