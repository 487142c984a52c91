use super::*;
use crate::{
    kubeconfig::{Cluster, Context, User},
    testing::Folder,
};

const FIRST: &str = "\
# comments are lost
kind: Config
users:
- user: {token: one, future: [1, 2]}
  name: zoe
- name: adam
  user:
    token: two
current-context: work
contexts:
- context:
    user: zoe
    cluster: prod
  name: work
";
const SECOND: &str = "\
apiVersion: v1
clusters: [{name: prod, cluster: {server: https://prod}}]
current-context: other
users: [{name: adam, user: {token: shadowed}}, {name: eve, user: {token: three}}]
";

struct Two {
    folder: Folder,
    files: KubeconfigFiles,
}

impl Two {
    fn new(test: &str) -> Self {
        let folder = Folder::new(test);
        let files = KubeconfigFiles::new([folder.write("first", FIRST), folder.write("second", SECOND)]);
        Self { folder, files }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn merged(&self) -> Kubeconfig {
        self.files.read().unwrap().unwrap()
    }
}

#[test]
fn change_is_written_to_the_file_of_its_entry() {
    let two = Two::new("files-home");
    two.files
        .edit(|kubeconfig| {
            kubeconfig.user_mut("eve").token = Some("changed".into());
            kubeconfig.user_mut("new").token = Some("four".into());
            kubeconfig.cluster_mut("prod").tls_server_name = Some("kubernetes".to_owned());
            Ok(())
        })
        .unwrap();
    let (first, second) = (two.text("first"), two.text("second"));
    assert!(first.contains("name: new") && first.contains("four") && !first.contains("changed"), "{first}");
    assert!(second.contains("changed") && second.contains("tls-server-name: kubernetes"), "{second}");
    assert!(second.contains("shadowed") && !second.contains("new"), "{second}");
}

#[test]
fn unchanged_entries_keep_their_file_and_place() {
    let two = Two::new("files-order");
    two.files.edit(|kubeconfig| kubeconfig.rename_context("work", "play")).unwrap();
    assert_eq!(two.text("second"), SECOND, "not written at all");
    let first = two.text("first");
    let order = [
        "kind",
        "users",
        "future",
        "name: zoe",
        "name: adam",
        "current-context: play",
        "contexts",
        "cluster: prod",
        "play",
    ];
    let places: Vec<_> = order.map(|word| first.rfind(word).unwrap_or_else(|| panic!("{word} in {first}"))).into();
    assert!(places.is_sorted(), "{places:?} {first}");
    assert!(!first.contains("clusters"), "{first}");
}

#[test]
fn current_context_is_set_in_one_file_and_cleared_in_all() {
    let two = Two::new("files-current");
    two.files
        .edit(|kubeconfig| {
            *kubeconfig.context_mut("next") = Context { cluster: Some("prod".to_owned()), ..Context::default() };
            kubeconfig.use_context("next")
        })
        .unwrap();
    assert_eq!(two.merged().current_context.as_deref(), Some("next"));
    assert_eq!(two.text("second"), SECOND);
    two.files
        .edit(|kubeconfig| {
            kubeconfig.current_context = None;
            Ok(())
        })
        .unwrap();
    assert_eq!(two.merged().current_context.unwrap_or_default(), "");
}

#[test]
fn deleted_entry_is_removed_from_its_file_only() {
    let two = Two::new("files-delete");
    two.files
        .edit(|kubeconfig| {
            kubeconfig.delete_user("adam")?;
            kubeconfig.delete_context("work")?;
            kubeconfig.delete_cluster("prod")
        })
        .unwrap();
    assert!(!two.text("first").contains("two"));
    // As with kubectl, the value of the next file becomes visible.
    let merged = two.merged();
    assert_eq!(merged.users.iter().map(|user| &*user.name).collect::<Vec<_>>(), ["zoe", "adam", "eve"]);
    assert!(merged.contexts.is_empty() && merged.clusters.is_empty());
}

#[test]
fn missing_entry_is_an_error_and_nothing_is_written() {
    let two = Two::new("files-missing");
    let folder = two.folder.path().display().to_string();
    for (change, expected) in [
        (
            Kubeconfig::use_context as fn(&mut Kubeconfig, &str) -> Result<(), ConfigError>,
            "contexts: there is no context",
        ),
        (Kubeconfig::delete_context, "contexts: there is no context"),
        (Kubeconfig::delete_cluster, "clusters: there is no cluster"),
        (Kubeconfig::delete_user, "users: there is no user"),
        (|kubeconfig, name| kubeconfig.rename_context(name, "x"), "contexts: there is no context"),
    ] {
        let error = two.files.edit(|kubeconfig| change(kubeconfig, "gone")).unwrap_err();
        assert_eq!(error.to_string(), format!("{folder}/first: {expected} named \"gone\""));
    }
    let error = two.files.edit(|kubeconfig| kubeconfig.rename_context("work", "work")).unwrap_err();
    assert!(error.to_string().ends_with(r#"there is a context named "work" already"#), "{error}");
    assert_eq!((two.text("first"), two.text("second")), (FIRST.to_owned(), SECOND.to_owned()));
}

#[test]
fn the_first_entry_makes_the_last_file() {
    let folder = Folder::new("files-new");
    let paths = ["one", "deep/two"].map(|name| folder.path().join(name));
    let files = KubeconfigFiles::new(paths.clone());
    assert_eq!(files.read().unwrap(), None);
    files.edit(|_| Ok(())).unwrap();
    assert!(!paths[1].exists(), "nothing to write");
    let single = Kubeconfig::single("k", Cluster::new("https://k"), User::with_token("t"));
    files
        .edit(|kubeconfig| {
            *kubeconfig = kubeconfig.clone().merge(single);
            Ok(())
        })
        .unwrap();
    assert!(!paths[0].exists() && paths[1].exists());
    let read = files.read().unwrap().unwrap();
    assert_eq!((read.current_context.as_deref(), &*read.users[0].name), (Some("k"), "k"));
    assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 1, "no lock file is left");
}

#[test]
fn lock_excludes_other_writers() {
    let two = Two::new("files-lock");
    let lock = two.folder.write("second.lock", "");
    let error = two.files.edit(|kubeconfig| kubeconfig.delete_user("zoe")).unwrap_err();
    assert_eq!(error.to_string(), format!("{} exists: another program is changing the kubeconfig", lock.display()));
    assert!(!two.folder.path().join("first.lock").exists(), "the acquired lock is released");
    fs::remove_file(lock).unwrap();
    // The lock exists during the change.
    let held = two.files.edit(|_| Ok(two.folder.path().join("first.lock").exists())).unwrap();
    assert!(held && !two.folder.path().join("first.lock").exists());
}

#[cfg(unix)]
#[test]
fn symlinks_and_permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new("files-link");
    let file = folder.write("real", FIRST);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    KubeconfigFiles::new([&link]).edit(|kubeconfig| kubeconfig.delete_user("adam")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!fs::read_to_string(&file).unwrap().contains("adam"));
}
