use super::{infer::infer, *};
use crate::testing::Folder;

fn kubeconfig(server: &str) -> String {
    format!(
        "current-context: c\nclusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k}}}}]\n"
    )
}

fn inferred(environment: &Environment) -> Result<Config, ConfigError> {
    infer(environment, &Selection::default())
}

fn server(environment: &Environment) -> String {
    inferred(environment).unwrap().server.to_string()
}

#[test]
fn the_variable_comes_before_the_home_folder() {
    let home = Folder::new("infer-order");
    home.write(".kube/config", &kubeconfig("https://home"));
    let named = home.write("named", &kubeconfig("https://named"));
    assert_eq!(server(&Environment::of_a_test(&[], home.path())), "https://home/");
    let variable = ("KUBECONFIG", named.display().to_string());
    assert_eq!(server(&Environment::of_a_test(&[variable], home.path())), "https://named/");
    // An empty variable is treated as unset.
    let variable = ("KUBECONFIG", String::new());
    assert_eq!(server(&Environment::of_a_test(&[variable], home.path())), "https://home/");
}

#[test]
fn a_list_of_files_is_merged_and_missing_ones_are_passed_over() {
    let home = Folder::new("infer-list");
    let first = home.write("first", "current-context: c\ncontexts: [{name: c, context: {cluster: k, namespace: one}}]");
    let second = home.write("second", &kubeconfig("https://second"));
    let list = format!("{0}/none:{1}:{1}:{2}", home.path().display(), first.display(), second.display());
    let config = inferred(&Environment::of_a_test(&[("KUBECONFIG", list)], home.path())).unwrap();
    assert_eq!((config.server.to_string(), &*config.default_namespace), ("https://second/".to_owned(), "one"));
}

#[test]
fn a_broken_file_is_not_passed_over() {
    let home = Folder::new("infer-broken");
    let broken = home.write("broken", "kind: [");
    let list = format!("{}:{}", broken.display(), home.write("good", &kubeconfig("https://g")).display());
    let error = inferred(&Environment::of_a_test(&[("KUBECONFIG", list)], home.path())).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: not YAML", broken.display())), "{error}");
}

#[test]
fn a_pod_has_a_service_account() {
    let home = Folder::new("infer-pod");
    home.write("serviceaccount/token", "t");
    home.write("serviceaccount/ca.crt", "CA");
    home.write("serviceaccount/namespace", "kube-system\n");
    let variables = [("KUBERNETES_SERVICE_HOST", "10.0.0.1".to_owned()), ("KUBERNETES_SERVICE_PORT", "443".to_owned())];
    let config = inferred(&Environment::of_a_test(&variables, home.path())).unwrap();
    assert_eq!(config.server, "https://10.0.0.1:443/");
    assert_eq!(config.default_namespace, "kube-system");
    assert_eq!(config.tls.certificate_authority, Some(Pem::File(home.path().join("serviceaccount/ca.crt"))));
    assert!(matches!(config.auth, Auth::TokenFile(path) if path == home.path().join("serviceaccount/token")));

    let variables = [("KUBERNETES_SERVICE_HOST", "fd00::1".to_owned()), ("KUBERNETES_SERVICE_PORT", "443".to_owned())];
    let config = in_cluster::load(&Environment::of_a_test(&variables, home.path())).unwrap();
    assert_eq!(config.server, "https://[fd00::1]:443/");
}

#[test]
fn pod_without_a_token_is_an_error() {
    let home = Folder::new("infer-no-token");
    let variables = [("KUBERNETES_SERVICE_HOST", "h".to_owned()), ("KUBERNETES_SERVICE_PORT", "443".to_owned())];
    let error = inferred(&Environment::of_a_test(&variables, home.path())).unwrap_err();
    assert_eq!(error.to_string(), format!("reading {}/serviceaccount/token", home.path().display()));
}

#[test]
fn missing_config_error_lists_the_searched_places() {
    let home = Folder::new("infer-nowhere");
    let error = inferred(&Environment::of_a_test(&[], home.path())).unwrap_err();
    let default = home.path().join(".kube/config");
    assert!(error.to_string().contains(&*default.to_string_lossy()), "{error}");
    assert!(error.to_string().contains("$KUBECONFIG"), "{error}");
}

#[test]
fn explicit_server_needs_no_kubeconfig() {
    let home = Folder::new("infer-asked");
    let mut selection = Selection { namespace: Some("n".to_owned()), ..Selection::default() };
    selection.cluster_fields.server = Some("http://h".to_owned());
    let config = infer(&Environment::of_a_test(&[], home.path()), &selection).unwrap();
    assert_eq!((config.server.to_string(), &*config.default_namespace), ("http://h/".to_owned(), "n"));
}
