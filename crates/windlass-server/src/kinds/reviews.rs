//! The groups `authentication.k8s.io` and `authorization.k8s.io`: reviews, which are created but not stored.

use crate::kinds::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    Kind { group: "authentication.k8s.io", name: "SelfSubjectReview", ..BASE },
    Kind { group: "authentication.k8s.io", name: "TokenReview", ..BASE },
    Kind { group: "authorization.k8s.io", name: "LocalSubjectAccessReview", ..BASE },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectAccessReview", ..BASE },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectRulesReview", ..BASE },
    Kind { group: "authorization.k8s.io", name: "SubjectAccessReview", ..BASE },
];
