//! Minimization of sequences.

use super::{
    mutate::{parts, remove},
    sequence::{Body, Sequence},
};

/// The maximum number of smaller sequences to try.
const ATTEMPTS: usize = 120;

/// Returns the smallest sequence found for which `shows` holds.
pub(super) async fn minimize(sequence: Sequence, shows: impl AsyncFn(&Sequence) -> bool) -> Sequence {
    let mut smallest = sequence;
    let mut attempts = 0;
    'again: loop {
        for candidate in smaller(&smallest) {
            attempts += 1;
            if attempts > ATTEMPTS {
                return smallest;
            }
            if shows(&candidate).await {
                smallest = candidate;
                continue 'again;
            }
        }
        return smallest;
    }
}

/// Returns variants without one step, one parameter or one part of a body, the smallest variants first.
fn smaller(sequence: &Sequence) -> Vec<Sequence> {
    let mut all = Vec::new();
    let but = |change: &dyn Fn(&mut Sequence)| {
        let mut changed = sequence.clone();
        change(&mut changed);
        changed
    };
    if sequence.steps.len() > 1 {
        // Steps that release scarce addresses remain.
        let gives_back =
            |at: &usize| sequence.steps[*at].method == "DELETE" && !sequence.steps[*at].path.contains("a-{id}");
        let removable = (0..sequence.steps.len()).rev().filter(|at| !gives_back(at));
        all.extend(removable.map(|at| but(&|changed| drop(changed.steps.remove(at)))));
    }
    for (at, step) in sequence.steps.iter().enumerate() {
        // Parameters that protect other tests remain.
        let kept = |name: &str| name == "dryRun" || name == "labelSelector";
        let removable = step.query.iter().enumerate().filter(|(_, (name, _))| !kept(name));
        all.extend(removable.map(|(index, _)| but(&|changed| drop(changed.steps[at].query.remove(index)))));
        all.extend((0..step.headers.len()).map(|index| but(&|changed| drop(changed.steps[at].headers.remove(index)))));
        let Body::Json(body) = &step.body else { continue };
        // Without its name the object would show a different error.
        let named = |place: &Vec<String>| matches!(&**place, [metadata, ..] if metadata == "metadata");
        for place in parts(body).into_iter().filter(|place| !named(place) || place.len() > 2) {
            let mut smaller = body.clone();
            remove(&mut smaller, &place);
            all.push(but(&|changed| changed.steps[at].body = Body::Json(smaller.clone())));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::differential::sequence::Step;

    #[tokio::test]
    async fn irrelevant_requests_are_removed() {
        let step = |body| Step {
            method: "POST",
            path: "/x".to_owned(),
            query: vec![("a", "b".to_owned())],
            headers: Vec::new(),
            body: Body::Json(body),
        };
        let sequence = Sequence {
            kind: "x".to_owned(),
            steps: vec![step(json!({"a": 1})), step(json!({"b": {"c": 1, "bad": 2}}))],
        };
        let small = minimize(sequence, async |sequence| sequence.text().contains("bad")).await;
        assert_eq!(small.text(), "POST /x\n{\"b\":{\"bad\":2}}\n\n");
    }
}
