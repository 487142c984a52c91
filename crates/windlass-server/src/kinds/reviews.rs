//! The groups `authentication.k8s.io` and `authorization.k8s.io`: reviews, which are created but not stored.

use crate::kinds::prelude::*;

pub(super) const AUTHENTICATION: &[Kind] =
    &[Kind { name: "SelfSubjectReview", ..BASE }, Kind { name: "TokenReview", ..BASE }];

pub(super) const AUTHORIZATION: &[Kind] = &[
    Kind { name: "LocalSubjectAccessReview", ..BASE },
    Kind { name: "SelfSubjectAccessReview", ..BASE },
    Kind { name: "SelfSubjectRulesReview", ..BASE },
    Kind { name: "SubjectAccessReview", ..BASE },
];
