//! Creates or deletes the pod `test` in the default namespace (`create` or `delete`), like `kubectl run test
//! --image=nginx --image-pull-policy=IfNotPresent` and `kubectl delete pod test --grace-period=0`.

use windlass::{
    Client, ObjectExt,
    api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    k8s::core::v1::{Container, Pod, PodSpec},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    match std::env::args().nth(1).as_deref() {
        Some("create") => {
            let pod = client.create(&test_pod()).await?;
            println!("pod {} created", pod.object_ref());
        }
        Some("delete") => {
            client.delete::<Pod>("test").within("default").grace_period(std::time::Duration::ZERO).await?;
            println!("pod default/test deleted");
        }
        _ => return Err("say create, or delete".into()),
    }
    Ok(())
}

fn test_pod() -> Pod {
    let container = Container {
        name: "test".to_owned(),
        image: Some("nginx".to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some("test".to_owned()),
            namespace: Some("default".to_owned()),
            labels: Some([("run".to_owned(), "test".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}
