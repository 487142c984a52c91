//! CRDs of widely used operators, from the folder in `WINDLASS_CRDS`.

use std::path::PathBuf;

use conformance::{CRDS, Operators, Target, established, operators};

/// The number of objects per version; `cargo xtask long operators` uses more.
const OBJECTS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_crds_are_established_as_on_the_real_server() {
    let Some(folder) = std::env::var_os(CRDS) else {
        println!("skipped: {CRDS} names no folder of definitions");
        return;
    };
    let what = Operators { folder: PathBuf::from(folder), seed: 1, objects: OBJECTS, only: String::new() };
    if Target::upstream().is_none() {
        println!("there is no real server to compare with: definitions are created and established, no more");
        let found = established(&what).await;
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        assert!(found.definitions > 0, "{CRDS} holds no definitions");
        println!("{} definitions", found.definitions);
        return;
    }
    let found = Box::pin(operators(&what, |difference| println!("{difference}"))).await;
    println!("{found}");
    assert!(found.definitions > 0, "{CRDS} holds no definitions");
    assert!(found.differences.is_empty(), "{} differences", found.differences.len());
}
