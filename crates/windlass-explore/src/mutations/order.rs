//! The order of mutations: one change of each field first.

use std::collections::BTreeMap;

use super::walk::Change;
use crate::record::ObjectName;

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) object: ObjectName,
    pub(super) change: Change,
}

/// Orders the candidates. The first change of each field comes before the second one of another. Among them, fields that
/// the manifest has come before others, and those before deeper ones. Items of lists, and objects of one resource, have the
/// same fields.
pub(super) fn by_novelty(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut numbers: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
    let numbered = candidates.into_iter().map(|candidate| {
        let starred = |name: &String| if name.parse::<usize>().is_ok() { "*".to_owned() } else { name.clone() };
        let field = candidate.change.field.iter().map(starred).collect();
        let number = numbers.entry((candidate.object.resource.clone(), field)).or_default();
        *number += 1;
        let Change { is_absent, field, .. } = &candidate.change;
        ((*number, *is_absent, if *is_absent { field.len() } else { 0 }), candidate)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_by_key(|(rank, _)| *rank);
    numbered.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exploration::simulated::object, plan::Edit};

    fn candidate(name: &str, path: &str, is_absent: bool) -> Candidate {
        let path: Vec<_> = path.split('.').map(str::to_owned).collect();
        let change = Change { field: path.clone(), path, edit: Edit::Remove, is_absent };
        Candidate { object: object(name), change }
    }

    #[test]
    fn each_field_comes_once_before_others_come_twice() {
        let candidates = vec![
            candidate("dbs.example.dev/a/b", "spec.list.0.x", false),
            candidate("dbs.example.dev/a/b", "spec.list.1.x", false),
            candidate("dbs.example.dev/a/c", "spec.list.0.x", false),
            candidate("dbs.example.dev/a/b", "spec.a.b", true),
            candidate("dbs.example.dev/a/b", "spec.c", true),
            candidate("dbs.example.dev/a/b", "spec.y", false),
        ];
        let order = by_novelty(candidates);
        let texts: Vec<_> =
            order.iter().map(|one| format!("{} {}", one.object.name, one.change.path.join("."))).collect();
        assert_eq!(
            texts,
            ["b spec.list.0.x", "b spec.y", "b spec.c", "b spec.a.b", "b spec.list.1.x", "c spec.list.0.x"]
        );
    }
}
