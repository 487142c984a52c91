use super::*;
use crate::{event_queue::tests::entry, handler::Deleted};

type Input = super::Input<()>;
type Effect = super::Effect<()>;

/// Compares objects by key and version.
impl PartialEq for Effect {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

fn machine(initial_sync: InitialSync) -> Machine {
    Machine::new(ListWatchParams { labels: Some("app=x".to_owned()), initial_sync, ..ListWatchParams::default() })
}

/// Returns a machine after these inputs, and its last effect.
fn after(machine: Machine, inputs: impl IntoIterator<Item = Input>) -> (Machine, Effect) {
    inputs.into_iter().fold((machine, Effect::Continue), |(machine, _), input| machine.step(input))
}

fn watching(version: u64) -> Machine {
    let (machine, _) = after(machine(InitialSync::List), [Input::Elapsed, page(version, None)]);
    assert_eq!(machine.state, State::Watching { catching_up: false });
    machine
}

fn page(version: u64, token: Option<&str>) -> Input {
    let continue_token = token.map(str::to_owned);
    Input::PageEnded(ListMeta { resource_version: version.into(), continue_token, ..ListMeta::default() })
}

fn added(version: u64) -> Delta<()> {
    Delta::Added(entry("a", version))
}

fn updated(version: u64) -> Delta<()> {
    Delta::Updated(entry("a", version))
}

fn deleted(version: u64) -> Delta<()> {
    Delta::Deleted(Deleted::final_state(entry("a", version)))
}

fn bookmark(version: u64) -> Delta<()> {
    Delta::Bookmark(version.into())
}

fn initial_end(version: u64) -> Input {
    Input::InitialEventsEnd(version.into())
}

fn list(version: Option<&str>, limit: Option<u32>) -> ListOptions {
    let resource_version = version.map(str::to_owned);
    ListOptions { labels: Some("app=x".to_owned()), resource_version, limit, ..ListOptions::default() }
}

fn watch(version: Option<&str>, initial_events: InitialEvents) -> WatchOptions {
    WatchOptions {
        labels: Some("app=x".to_owned()),
        resource_version: version.map(str::to_owned),
        bookmarks: Bookmarks::Allow,
        initial_events,
        ..WatchOptions::default()
    }
}

fn stream(version: Option<&str>) -> Effect {
    Effect::Watch(watch(version, InitialEvents::Send))
}

fn rewatch(version: &str) -> Effect {
    Effect::Watch(watch(Some(version), InitialEvents::No))
}

#[test]
fn first_list_uses_version_0_and_watch_resumes() {
    let (machine, effect) = machine(InitialSync::List).step(Input::Elapsed);
    assert_eq!(effect, Effect::List(list(Some("0"), Some(500))));
    let (machine, effect) = machine.step(page(7, None));
    let then = Then::Watch(watch(Some("7"), InitialEvents::No));
    assert_eq!(effect, Effect::Replace { version: 7.into(), then });
    assert_eq!(machine.state, State::Watching { catching_up: false });
}

#[test]
fn pages_have_the_version_of_the_first_page() {
    let (machine, effect) = after(machine(InitialSync::List), [Input::Elapsed, page(7, Some("more"))]);
    let next = ListOptions { continue_token: Some("more".to_owned()), ..list(None, Some(500)) };
    assert_eq!(effect, Effect::List(next));
    let (_, effect) = machine.step(page(9, None));
    assert!(matches!(effect, Effect::Replace { version, .. } if version.as_u64() == Some(7)));
}

#[test]
fn relist_keeps_the_version_and_requests_one_page() {
    let inputs = [Input::Event(updated(9)), Input::WatchClosed(Length::VeryShort), Input::Elapsed];
    let (_, effect) = after(watching(7), inputs);
    assert_eq!(effect, Effect::List(list(Some("9"), None)));
}

#[test]
fn server_that_pages_version_0_keeps_getting_page_limits() {
    let inputs =
        [Input::Elapsed, page(7, Some("more")), page(7, None), Input::WatchClosed(Length::VeryShort), Input::Elapsed];
    let (_, effect) = after(machine(InitialSync::List), inputs);
    let options = ListOptions { version_match: Some(VersionMatch::NotOlderThan), ..list(Some("7"), Some(500)) };
    assert_eq!(effect, Effect::List(options));
}

#[test]
fn a_page_size_of_the_user_holds_for_every_list() {
    let params = ListWatchParams { page_size: Some(3), initial_sync: InitialSync::List, ..ListWatchParams::default() };
    let (machine, effect) = Machine::new(params).step(Input::Elapsed);
    assert!(matches!(effect, Effect::List(ListOptions { limit: Some(3), .. })));
    let (_, effect) = after(machine, [page(7, None), Input::WatchFailed(Stage::Open, Failure::Other), Input::Elapsed]);
    assert!(matches!(
        effect,
        Effect::List(ListOptions { limit: Some(3), version_match: Some(VersionMatch::NotOlderThan), .. })
    ));
}

#[test]
fn expired_version_falls_back_to_most_recent_once() {
    for failure in [Failure::Expired, Failure::TooLarge] {
        let inputs = [Input::WatchFailed(Stage::Open, Failure::Expired), Input::Elapsed];
        let (machine, effect) = after(watching(7), inputs);
        assert_eq!(effect, Effect::List(list(Some("7"), None)), "starting from the last version");
        let (machine, effect) = machine.step(Input::ListFailed(failure));
        assert_eq!(effect, Effect::List(list(None, Some(500))), "at once");
        let (machine, effect) = machine.step(Input::ListFailed(failure));
        assert_eq!(effect, Effect::Wait(None), "once");
        let (machine, effect) = machine.step(Input::Elapsed);
        assert_eq!(effect, Effect::List(list(None, Some(500))), "until a list has succeeded");
        let (_, effect) = after(machine, [page(3, None), Input::WatchClosed(Length::VeryShort), Input::Elapsed]);
        assert_eq!(effect, Effect::List(list(Some("3"), None)), "but not after it has succeeded");
    }
}

#[test]
fn pages_that_expire_are_replaced_by_the_whole_list() {
    let inputs = [Input::Elapsed, page(7, Some("more")), Input::ListFailed(Failure::Expired)];
    let (machine, effect) = after(machine(InitialSync::List), inputs);
    assert_eq!(effect, Effect::List(list(Some("0"), None)));
    let (_, effect) = machine.step(page(9, None));
    assert!(matches!(effect, Effect::Replace { version, .. } if version.as_u64() == Some(9)));
}

#[test]
fn other_failures_of_a_list_wait_as_long_as_the_server_asks() {
    let (listing, _) = machine(InitialSync::List).step(Input::Elapsed);
    assert_eq!(listing.clone().step(Input::ListFailed(Failure::Other)).1, Effect::Wait(None));
    assert_eq!(listing.clone().step(Input::ListFailed(Failure::Refused)).1, Effect::Wait(None));
    let after = Some(Duration::from_secs(9));
    let (machine, effect) = listing.step(Input::ListFailed(Failure::TooManyRequests(after)));
    assert_eq!((machine.state, effect), (State::Waiting(Next::Sync), Effect::Wait(after)));
}

#[test]
fn each_event_advances_the_resume_version() {
    let mut machine = watching(7);
    for (input, expected) in
        [(added(8), added(8)), (updated(9), updated(9)), (deleted(10), deleted(10)), (bookmark(15), bookmark(15))]
    {
        let effect;
        (machine, effect) = machine.step(Input::Event(input));
        assert_eq!(effect, Effect::Forward(expected));
    }
    assert_eq!(machine.step(Input::WatchClosed(Length::Normal)).1, rewatch("15"), "immediately, without a list");
}

#[test]
fn unversioned_watch_has_no_progress_before_a_change() {
    let list_without_version = Input::PageEnded(ListMeta::default());
    let (machine, effect) = after(machine(InitialSync::List), [Input::Elapsed, list_without_version]);
    assert!(matches!(effect, Effect::Replace { then: Then::Watch(WatchOptions { resource_version: None, .. }), .. }));
    let (machine, _) = after(machine, [Input::Event(added(90)), Input::Event(added(40))]);
    assert_eq!((&machine.state, &machine.synced), (&State::Watching { catching_up: true }, &Some("".into())));
    let (machine, _) = machine.step(Input::Event(updated(91)));
    assert_eq!((machine.state, machine.synced), (State::Watching { catching_up: false }, Some(91.into())));
}

#[test]
fn failed_watch_start_is_retried_without_a_list() {
    let after_3s = Some(Duration::from_secs(3));
    for (failure, delay) in [(Failure::Refused, None), (Failure::TooManyRequests(after_3s), after_3s)] {
        let (machine, effect) = watching(7).step(Input::WatchFailed(Stage::Opening, failure));
        assert_eq!(effect, Effect::Wait(delay));
        let (machine, effect) = machine.step(Input::Elapsed);
        let was_away = failure == Failure::Refused;
        let effect = if was_away { machine.step(Input::Probed(7.into())).1 } else { effect };
        assert_eq!(effect, rewatch("7"));
    }
    let (_, effect) =
        after(watching(7), [Input::WatchFailed(Stage::Open, Failure::TooManyRequests(None)), Input::Elapsed]);
    assert_eq!(effect, rewatch("7"));
}

#[test]
fn other_watch_errors_cause_a_relist() {
    for input in [
        Input::WatchFailed(Stage::Opening, Failure::Other),
        Input::WatchFailed(Stage::Opening, Failure::Expired),
        Input::WatchFailed(Stage::Open, Failure::Other),
        Input::WatchFailed(Stage::Open, Failure::Expired),
        Input::WatchClosed(Length::VeryShort),
    ] {
        let (machine, effect) = watching(7).step(input);
        assert_eq!(effect, Effect::Wait(None));
        assert_eq!(machine.step(Input::Elapsed).1, Effect::List(list(Some("7"), None)));
    }
}

#[test]
fn server_with_other_history_is_relisted_at_most_recent() {
    let (_, effect) = after(watching(7), [Input::Event(bookmark(3)), Input::Elapsed]);
    assert_eq!(effect, Effect::List(list(None, Some(500))));
    let (_, effect) = watching(7).step(Input::Event(added(7)));
    assert_eq!(effect, Effect::Forward(added(7)), "the same version is not older");
}

fn probe() -> Effect {
    Effect::Probe(ListOptions { content: Content::Metadata, ..list(None, Some(1)) })
}

#[test]
fn watch_checks_the_server_version_after_an_outage() {
    let after_2s = Some(Duration::from_secs(2));
    let (probing, effect) = watching(7).step(Input::WatchClosed(Length::Cut));
    assert_eq!((&probing.state, effect), (&State::Probing, probe()));
    for (input, expected) in [
        (Input::Probed(7.into()), rewatch("7")),
        (Input::Probed(9.into()), rewatch("7")),
        (Input::ProbeFailed(Failure::Other), rewatch("7")),
        (Input::Probed(6.into()), Effect::List(list(None, Some(500)))),
        (Input::ProbeFailed(Failure::Refused), Effect::Wait(None)),
        (Input::ProbeFailed(Failure::TooManyRequests(after_2s)), Effect::Wait(after_2s)),
    ] {
        let (machine, effect) = probing.clone().step(input);
        assert_eq!(effect, expected);
        match machine.state {
            State::Waiting(_) => assert_eq!(machine.step(Input::Elapsed).1, probe(), "again"),
            State::Watching { .. } => {
                assert_eq!(machine.step(Input::WatchClosed(Length::Normal)).1, rewatch("7"), "once");
            }
            _ => {}
        }
    }
}

#[test]
fn watch_list_continues_with_the_same_watch() {
    let (machine, effect) = machine(InitialSync::Watch).step(Input::Elapsed);
    assert_eq!(effect, stream(None), "the most recent version, never any version");
    let mut machine = machine;
    for (input, expected) in [
        (Input::Event(added(90)), Effect::Collect(entry("a", 90))),
        (Input::Event(updated(91)), Effect::Collect(entry("a", 91))),
        (Input::Event(deleted(40)), Effect::Discard(entry("a", 40))),
        (Input::Event(bookmark(95)), Effect::Continue),
        (initial_end(96), Effect::Replace { version: 96.into(), then: Then::Continue }),
    ] {
        let effect;
        (machine, effect) = machine.step(input);
        assert_eq!(effect, expected);
    }
    assert_eq!(machine.state, State::Watching { catching_up: false });
    let (_, effect) = after(machine, [Input::WatchFailed(Stage::Open, Failure::Expired), Input::Elapsed]);
    assert_eq!(effect, stream(Some("96")), "again, and never at an older version");
}

#[test]
fn unsupported_watch_list_falls_back_to_a_list() {
    for input in [
        Input::WatchFailed(Stage::Opening, Failure::Other),
        Input::WatchFailed(Stage::Open, Failure::Other),
        Input::WatchClosed(Length::VeryShort),
    ] {
        let (machine, effect) = after(machine(InitialSync::Watch), [Input::Elapsed, input]);
        assert_eq!(effect, Effect::List(list(Some("0"), Some(500))));
        let (_, effect) = after(machine, [page(7, None), Input::WatchClosed(Length::VeryShort), Input::Elapsed]);
        assert_eq!(effect, stream(Some("7")), "tried again in the next round");
    }
}

#[test]
fn incomplete_initial_events_are_requested_again() {
    let (streaming, _) = machine(InitialSync::Watch).step(Input::Elapsed);
    let after_2s = Some(Duration::from_secs(2));
    for (input, delay) in [
        (Input::WatchClosed(Length::Normal), None),
        (Input::WatchClosed(Length::Cut), None),
        (Input::WatchFailed(Stage::Opening, Failure::Refused), None),
        (Input::WatchFailed(Stage::Opening, Failure::TooManyRequests(after_2s)), after_2s),
    ] {
        let (machine, effect) = streaming.clone().step(input);
        assert_eq!(effect, Effect::Wait(delay));
        assert_eq!(machine.step(Input::Elapsed).1, stream(None));
    }
}

#[test]
fn unservable_version_falls_back_to_most_recent() {
    for failure in [Failure::Expired, Failure::TooLarge] {
        let (machine, _) = after(
            machine(InitialSync::Watch),
            [Input::Elapsed, initial_end(9), Input::WatchClosed(Length::VeryShort), Input::Elapsed],
        );
        assert_eq!(machine.state, State::Streaming { from: Some(9.into()) });
        let (machine, effect) = machine.step(Input::WatchFailed(Stage::Opening, failure));
        assert_eq!(effect, stream(None));
        let (_, effect) = machine.step(Input::WatchFailed(Stage::Opening, failure));
        assert_eq!(effect, Effect::List(list(None, Some(500))), "once, then with a list");
    }
}

#[test]
fn permanent_watch_error_relists_after_a_delay() {
    let (machine, effect) = watching(7).step(Input::Elapsed);
    assert_eq!((machine.state, effect), (State::Waiting(Next::Sync), Effect::Wait(None)));
}

#[test]
fn requests_have_the_content_of_the_machine() {
    for content in [Content::Object, Content::Metadata] {
        for initial_sync in [InitialSync::List, InitialSync::Watch] {
            let machine = Machine::new(ListWatchParams { content, initial_sync, ..ListWatchParams::default() });
            let asked = match after(machine, [Input::Elapsed]).1 {
                Effect::List(options) => options.content,
                Effect::Watch(options) => options.content,
                other => panic!("{other:?}"),
            };
            assert_eq!(asked, content);
        }
    }
}
