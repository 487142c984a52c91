//! Identity of requests: replaced tokens, impersonation, and permissions of a role.

use std::fs;

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, UserInfo},
    authorization::v1::SelfSubjectAccessReview,
    core::v1::{ConfigMap, Pod},
    rbac::v1::{Role, RoleBinding},
};
use serde_json::json;
use windlass_api::Object;
use windlass_client::{Auth, Client, Impersonation};

fn read<K: Object>(json: serde_json::Value) -> K {
    serde_json::from_value(json).unwrap()
}

async fn who_am_i(client: &Client) -> UserInfo {
    client.create(&SelfSubjectReview::default()).await.unwrap().status.unwrap().user_info.unwrap()
}

#[tokio::test]
async fn administrator_can_impersonate_a_user() {
    on_each_target(|target| async {
        let somebody = Impersonation {
            user: "jane".to_owned(),
            uid: Some("u-1".to_owned()),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            extra: [("Example.com/why".to_owned(), vec!["a b".to_owned(), "100 %".to_owned()])].into(),
        };
        let jane = who_am_i(&target.acting_as(somebody)).await;
        assert_eq!((jane.username.as_deref(), jane.uid.as_deref()), (Some("jane"), Some("u-1")));
        assert_eq!(jane.groups.unwrap(), ["dev", "ops", "system:authenticated"]);
        let extra = jane.extra.unwrap();
        assert_eq!(
            extra.into_iter().collect::<Vec<_>>(),
            [("example.com/why".to_owned(), vec!["a b".to_owned(), "100 %".to_owned()])]
        );
        assert_ne!(who_am_i(&target.client).await.username.as_deref(), Some("jane"));
        target
    })
    .await;
}

#[tokio::test]
async fn replaced_token_file_is_read_after_401() {
    on_each_target(|target| async {
        let Auth::Bearer(token) = &target.config.auth else { panic!("the targets use tokens") };
        let file = std::env::temp_dir().join(unique("windlass-token"));
        fs::write(&file, "wrong").unwrap();
        let client = target.with_auth(Auth::TokenFile(file.clone()));
        assert!(client.list::<Pod>().await.unwrap_err().is_unauthorized());
        fs::write(&file, token.expose()).unwrap();
        client.list::<Pod>().await.unwrap();
        fs::remove_file(file).unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn request_is_forbidden_until_a_role_allows_it() {
    on_each_target(|target| async {
        let user = unique("jane");
        let jane = target.acting_as(Impersonation::user(user.as_str()));
        let refused = jane.list::<ConfigMap>().within("default").await.unwrap_err();
        assert!(refused.is_forbidden(), "{}", refused.chain());
        let expected = format!(
            "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
        );
        assert_eq!(refused.status().unwrap().message, expected);

        let metadata = json!({"name": user, "namespace": "default"});
        let role: Role = read(json!({"metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}));
        target.client.create(&role).await.unwrap();
        let binding: RoleBinding = read(json!({"metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}));
        target.client.create(&binding).await.unwrap();
        eventually("the role is in force", || async { jane.list::<ConfigMap>().within("default").await.ok() }).await;
        assert!(jane.list::<ConfigMap>().await.unwrap_err().is_forbidden(), "in one namespace only");
        let ask = |verb: &str| {
            let review: SelfSubjectAccessReview = read(json!({"metadata": {}, "spec": {"resourceAttributes":
                {"namespace": "default", "verb": verb, "resource": "configmaps"}}}));
            let jane = jane.clone();
            async move { jane.create(&review).await.unwrap().status.unwrap().allowed }
        };
        assert_eq!((ask("list").await, ask("delete").await), (true, false));
        target.client.delete::<RoleBinding>(user.as_str()).within("default").await.unwrap();
        target.client.delete::<Role>(user.as_str()).within("default").await.unwrap();
        target
    })
    .await;
}
