use std::fs;

use super::*;
use crate::testing::{Folder, Recorded, pair};

fn load(folder: &Folder, metrics: &Recorded) -> Result<Loaded, CertificateError> {
    CertificateFiles::in_directory(&folder.0).load(Arc::new(metrics.clone()))
}

fn shown(loaded: &Loaded) -> Vec<u8> {
    loaded.current.lock().as_ref().unwrap().certified.cert[0].to_vec()
}

#[tokio::test(start_paused = true)]
async fn new_certificate_is_used_within_a_second() {
    let (folder, told) = (Folder::new(), Arc::new(Mutex::new(Vec::new())));
    let first = folder.certify();
    let files = CertificateFiles::in_directory(&folder.0).on_change({
        let told = Arc::clone(&told);
        move |certified| told.lock().push(certified.cert[0].to_vec())
    });
    let loaded = files.load(Arc::new(Recorded::default())).unwrap();
    assert_eq!(shown(&loaded), first);
    let mut following = Box::pin(loaded.follow());
    let second = folder.certify();
    let look = tokio::time::sleep(INTERVAL + Duration::from_millis(1));
    tokio::select! { () = &mut following => {}, () = look => {} }
    assert_eq!(shown(&loaded), second);
    assert_eq!(*told.lock(), [first, second]);
}

#[test]
fn invalid_certificate_pair_is_counted_and_ignored() {
    let (folder, metrics) = (Folder::new(), Recorded::default());
    let first = folder.certify();
    let loaded = load(&folder, &metrics).unwrap();
    let (certificate, key, second) = pair();
    // The certificate is written before its key.
    fs::write(folder.0.join("tls.crt"), certificate).unwrap();
    assert!(matches!(loaded.read(), Err(CertificateError::Pair { .. })));
    fs::remove_file(folder.0.join("tls.key")).unwrap();
    assert!(matches!(loaded.read(), Err(CertificateError::File { .. })));
    assert_eq!(shown(&loaded), first);
    fs::write(folder.0.join("tls.key"), key).unwrap();
    loaded.read().unwrap();
    assert_eq!(shown(&loaded), second);
    let counted = ["certificate read", "certificate unusable", "certificate unusable", "certificate read"];
    assert_eq!(metrics.take(), counted);
}

#[cfg(unix)]
#[test]
fn atomically_replaced_files_are_reloaded() {
    // Simulates how a kubelet updates a Secret: the files are links through a directory link that is renamed.
    let (folder, metrics) = (Folder::new(), Recorded::default());
    let versions = ["one", "two"].map(|version| {
        let (certificate, key, der) = pair();
        fs::create_dir(folder.0.join(version)).unwrap();
        fs::write(folder.0.join(version).join("tls.crt"), certificate).unwrap();
        fs::write(folder.0.join(version).join("tls.key"), key).unwrap();
        der
    });
    let link = |version: &str| {
        std::os::unix::fs::symlink(version, folder.0.join("..tmp")).unwrap();
        fs::rename(folder.0.join("..tmp"), folder.0.join("..data")).unwrap();
    };
    link("one");
    for file in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), folder.0.join(file)).unwrap();
    }
    let loaded = load(&folder, &metrics).unwrap();
    assert_eq!(shown(&loaded), versions[0]);
    link("two");
    loaded.read().unwrap();
    assert_eq!(shown(&loaded), versions[1]);
}

#[test]
fn missing_certificate_fails_the_start() {
    let folder = Folder::new();
    let error = load(&folder, &Recorded::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("reading {}", folder.0.join("tls.crt").display()));
}
