use windlass_api::Entropy;

use super::{KindOptions, built_ins, catalog};

#[test]
fn each_catalog_resource_has_a_row_and_a_prefix() {
    let options = KindOptions { service_cidr: "10.0.0.0/24".parse().unwrap(), entropy: Entropy::seeded(1) };
    let resources = built_ins(&options);
    assert_eq!(resources.len(), catalog().len());
    let found = |group: &str, plural: &str| {
        let resource =
            resources.iter().find(|resource| (&*resource.group, &*resource.plural) == (group, plural)).unwrap();
        (resource.prefix.clone(), resource.strategy.scale().is_some(), resource.subresources.len())
    };
    for (group, plural, prefix, scales, subresources) in [
        ("", "pods", "/registry/pods/", false, 10),
        ("", "nodes", "/registry/minions/", false, 2),
        ("", "bindings", "", false, 0),
        ("apps", "deployments", "/registry/deployments/", true, 2),
        ("events.k8s.io", "events", "/registry/events/", false, 0),
        ("networking.k8s.io", "ingresses", "/registry/ingress/", false, 1),
        ("authorization.k8s.io", "subjectaccessreviews", "", false, 0),
    ] {
        assert_eq!(found(group, plural), (prefix.to_owned(), scales, subresources), "{plural}");
    }
}
