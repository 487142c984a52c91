//! Tests of the cluster's options.

use super::{ClusterOptions, fixture::Fixture};

#[tokio::test]
async fn excluded_controllers_do_not_run() {
    for (controllers, status) in [("serviceaccount", 200), ("*,-serviceaccount", 404)] {
        let options = ClusterOptions { controllers: controllers.parse().unwrap(), ..ClusterOptions::default() };
        // Waits until the controllers have created their first objects.
        let fixture = Fixture::start_with("none", &options).await;
        let account = fixture.administrator().get("/api/v1/namespaces/default/serviceaccounts/default").await;
        assert_eq!(account.0, status, "{controllers}");
        fixture.finish().await;
    }
}
