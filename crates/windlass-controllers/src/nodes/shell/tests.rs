use super::*;
use crate::nodes::disk::Disk;

fn ran(script: &str) -> Option<ScriptOutcome> {
    let mut disk = Disk::default();
    let pod = k8s_openapi::api::core::v1::Pod::default();
    let files = View::new(&mut disk, &pod, &k8s_openapi::api::core::v1::Container::default());
    let variables = BTreeMap::from([("INDEX".to_owned(), "5".to_owned())]);
    run_script(
        script,
        vec!["sh".to_owned(), "a b".to_owned(), "c".to_owned()],
        false,
        ScriptEnvironment { variables, files, seed: 7 },
    )
}

fn code(script: &str) -> Option<i32> {
    ran(script).unwrap_or_else(|| panic!("{script:?} cannot be parsed")).code
}

#[test]
fn scripts_exit_with_the_code_of_a_real_shell() {
    for (script, expected) in [
        ("exit $INDEX", 5),
        ("exit ${INDEX}", 5),
        ("exit ${MISSING:-9}", 9),
        ("exit $MISSING", 0),
        ("false; exit", 1),
        ("exit 300", 44),
        ("exit nothing", 2),
        ("(exit 3); exit $?", 3),
        ("! false", 0),
        ("true && false || exit 4", 4),
        ("if [ $(expr ${INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi", 1),
        ("if false; then exit 1; elif [ \"$INDEX\" = 5 ]; then exit 2; else exit 3; fi", 2),
        ("exit $(( (INDEX + 1) * 2 - -1 ))", 13),
        ("exit $((1 / 0))", 2),
        ("exit `expr 1 + 2 \\* 3`", 7),
        ("for i in 1 2 3; do [ $i = 2 ] && exit $i; done", 2),
        ("n=0; for word in \"$@\"; do n=$((n + 1)); done; exit $n", 2),
        ("i=0; while [ $i -lt 7 ]; do i=$((i+1)); done; exit $i", 7),
        ("i=0; until false; do i=$((i+1)); [ $i -ge 4 ] && break; done; exit $i", 4),
        ("f() { return $1; }; f 6; exit $?", 6),
        ("x=1; (x=2); exit $x", 1),
        ("x=1 true; exit ${x:-8}", 8),
        ("echo 12 > /tmp/x; echo 3 >> /tmp/x; [ \"$(cat /tmp/x)\" = \"12\n3\" ] && exit 11", 11),
        ("echo -n hi | cat > /tmp/y; test -s /tmp/y && exit 12", 12),
        ("cat /missing 2>/dev/null || exit 13", 13),
        ("set -e; if false; then :; fi; false || true; false; exit 14", 1),
        ("test -z '' && test -n x && [ ! -e /nothing ] # a comment ; exit 9", 0),
        ("printf '%s-%d\\n' a 1 >/tmp/z; [ $(cat /tmp/z) = a-1 ]", 0),
        ("./work --fast && exit 21", 21),
        ("mkdir -p /tmp/d && [ -d /tmp/d ] && rm -rf /tmp/d && [ ! -d /tmp/d ] && exit 15", 15),
        ("if [ \"${INDEX}\" = \"5\" ]; then echo \"it is ${INDEX}\"; exit 16; fi", 16),
    ] {
        assert_eq!(code(script), Some(expected), "{script}");
    }
}

#[test]
fn sleep_adds_up() {
    assert_eq!(ran("for i in 1 2 3; do sleep 2; done; sleep 0.5").unwrap().slept, Some(Duration::from_millis(6500)));
    assert_eq!(ran("true").unwrap().slept, None);
    assert_eq!(code("sleep -1"), Some(1));
}

#[test]
fn random_is_drawn_from_the_seed() {
    assert_eq!(code("exit $(( $RANDOM / 16384 ))"), code("exit $(( $RANDOM / 16384 ))"));
    assert_eq!(code("[ $RANDOM -lt 32768 ]"), Some(0));
}

#[test]
fn scripts_without_an_end_run_for_ever() {
    for script in [
        "while true; do sleep 1; done",
        "while :; do :; done",
        "f() { f; }; f",
        "sleep infinity",
        "x=a; while true; do x=\"$x$x\"; done",
        "for a in 1 2 3 4 5 6 7 8 9; do while true; do echo $(echo $(echo $a)); done; done",
    ] {
        assert_eq!(code(script), None, "{script}");
    }
}

#[test]
fn unreadable_scripts_are_not_understood() {
    let deep = "(".repeat(1000) + "true" + &")".repeat(1000);
    let substitutions = "$(".repeat(1000);
    let functions = "f()".repeat(1000);
    let long = ":;".repeat(LONGEST_SCRIPT);
    for script in [
        "if true",
        "echo 'open",
        "echo \"open",
        "cat <<EOF\nEOF",
        "sleep 5 &",
        "fi",
        "a || ",
        "(",
        ")",
        "f() echo",
        &deep,
        &substitutions,
        &functions,
        &long,
    ] {
        assert_eq!(ran(script), None, "{script:.40}");
    }
}
