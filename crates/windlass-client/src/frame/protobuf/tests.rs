use windlass_protobuf::to_protobuf;

use super::*;

fn pod(name: &str, size: usize) -> String {
    let annotation = "x".repeat(size);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","uid":"u","resourceVersion":"7","annotations":{{"x":"{annotation}"}}}}}}"#
    )
}

/// Returns a frame: the length and the message.
fn frame(event_type: &str, json: &str) -> Vec<u8> {
    frame_of(event_type, &to_protobuf(json.as_bytes()).unwrap())
}

fn frame_of(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = vec![0x0a];
    length(&mut raw, object.len());
    raw.extend_from_slice(object);
    let mut event = vec![0x0a, u8::try_from(event_type.len()).unwrap()];
    event.extend_from_slice(event_type.as_bytes());
    event.push(0x12);
    length(&mut event, raw.len());
    event.extend_from_slice(&raw);
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

fn length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7F).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
}

fn watch() -> Vec<u8> {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":410}"#;
    [
        frame("ADDED", &pod("a", 300)),
        frame("MODIFIED", &pod("ä", 0)),
        frame("BOOKMARK", r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}"#),
        frame("ERROR", status),
    ]
    .concat()
}

fn events(chunks: &[&[u8]]) -> Result<Vec<RawEvent>, FrameError> {
    let mut decoder = ProtobufWatchDecoder::new(1 << 10);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
    }
    events.extend(decoder.finish()?);
    Ok(events)
}

fn list_of(items: &[(&str, usize)]) -> Vec<u8> {
    let items: Vec<_> = items.iter().map(|(name, size)| pod(name, *size)).collect();
    let json = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"8","continue":"more"}},"items":[{}]}}"#,
        items.join(",")
    );
    to_protobuf(json.as_bytes()).unwrap()
}

fn items(chunks: &[&[u8]]) -> Result<(Vec<Bytes>, ListMeta), FrameError> {
    let mut decoder = ProtobufListDecoder::new(1 << 10);
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = decoder.next_item()? {
            items.push(item);
        }
    }
    Ok((items, decoder.finish()?))
}

fn name(value: &[u8]) -> String {
    windlass_protobuf::meta(value).unwrap().name().to_string()
}

#[test]
fn watch_cut_anywhere_gives_the_same_events() {
    let stream = watch();
    let whole = events(&[&stream]).unwrap();
    let types: Vec<_> = whole.iter().map(|event| event.event_type).collect();
    assert_eq!(types, [EventType::Added, EventType::Modified, EventType::Bookmark, EventType::Error]);
    assert_eq!((name(&whole[0].body), name(&whole[1].body)), ("a".to_owned(), "ä".to_owned()));
    let status: windlass_api::Status = windlass_protobuf::decode(&whole[3].body).unwrap();
    assert_eq!(status.code, 410);
    for first in 0..stream.len() {
        for second in (first..stream.len()).step_by(7) {
            let cut = events(&[&stream[..first], &stream[first..second], &stream[second..]]).unwrap();
            assert_eq!(cut, whole, "cut at {first} and {second}");
        }
    }
    assert_eq!(events(&stream.chunks(1).collect::<Vec<_>>()).unwrap(), whole);
}

#[test]
fn event_within_one_chunk_is_a_slice_of_it() {
    let chunk = Bytes::from(watch());
    let mut decoder = ProtobufWatchDecoder::new(1 << 10);
    decoder.push(chunk.clone());
    let body = decoder.next_event().unwrap().unwrap().body;
    assert!(chunk.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn truncated_watch_gives_whole_events_or_an_error() {
    let stream = watch();
    let whole = events(&[&stream]).unwrap();
    let mut complete = 0;
    for end in 0..=stream.len() {
        match events(&[&stream[..end]]) {
            Ok(events) => {
                assert_eq!(events, whole[..events.len()], "end at {end}");
                complete += 1;
            }
            Err(error) => assert!(matches!(error, FrameError::Truncated { .. }), "{end}: {error}"),
        }
    }
    assert_eq!(complete, whole.len() + 1);
}

#[test]
fn frame_without_an_event_is_an_error() {
    let json = [&[0, 0, 0, 2][..], b"{}"].concat();
    let news = frame("NEWS", &pod("a", 0));
    let not_enveloped = frame_of("ADDED", b"{}");
    for garbage in [&[0, 0, 0, 0][..], &json, &news, &not_enveloped, b"{\"type\":\"ADDED\",\"object\":{}}\n"] {
        assert!(events(&[garbage]).is_err(), "{garbage:?}");
    }
}

#[test]
fn oversized_event_is_skipped_and_named_at_any_cut() {
    // The metadata must be in the start of the frame.
    let image = "i".repeat(2_000);
    let large = frame(
        "MODIFIED",
        &format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"b","resourceVersion":"8"}},"spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}"#
        ),
    );
    let stream = [frame("ADDED", &pod("a", 0)), large.clone(), frame("DELETED", &pod("c", 0))].concat();
    for first in 0..stream.len() {
        let mut decoder = ProtobufWatchDecoder::new(1 << 10);
        let (mut events, mut errors) = (Vec::new(), Vec::new());
        for chunk in [&stream[..first], &stream[first..]].iter().flat_map(|part| part.chunks(600)) {
            decoder.push(Bytes::copy_from_slice(chunk));
            loop {
                match decoder.next_event() {
                    Ok(Some(event)) => events.push(event.event_type),
                    Ok(None) => break,
                    Err(FrameError::Oversize(oversize)) => errors.push(*oversize),
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(decoder.window.held.len() <= 1 << 10);
        }
        assert_eq!(events, [EventType::Added, EventType::Deleted], "{first}");
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!(error.place, Place::Event(2, EventType::Modified));
        let meta = error.meta.as_ref().unwrap();
        assert_eq!((&**meta.name(), meta.resource_version().as_str()), ("b", "8"));
        assert_eq!((error.size, error.limit), (large.len() as u64 - 4, 1 << 10));
        assert!(decoder.finish().unwrap().is_none());
    }
}

#[test]
fn oversized_frame_that_is_no_change_is_rejected() {
    let large = |event_type: &str| frame(event_type, &pod("b", 2_000));
    for stream in [large("BOOKMARK"), large("ERROR"), [&[0x7F, 0xFF, 0xFF, 0xFF][..], &[b'x'; 2_000]].concat()] {
        for chunk in [600, stream.len()] {
            let error = events(&stream.chunks(chunk).collect::<Vec<_>>()).unwrap_err();
            assert!(!matches!(error, FrameError::Oversize(_) | FrameError::Truncated { .. }), "{error}");
        }
    }
}

#[test]
fn list_cut_anywhere_gives_the_same_items() {
    let list = list_of(&[("a", 0), ("b", 200), ("c", 1)]);
    let (whole, meta) = items(&[&list]).unwrap();
    assert_eq!(whole.iter().map(|item| name(item)).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((meta.resource_version.as_str(), meta.continue_token.as_deref()), ("8", Some("more")));
    assert_eq!(windlass_protobuf::type_of(&whole[1]).unwrap(), ("v1".into(), "Pod".into()));
    for first in 0..list.len() {
        let cut = items(&[&list[..first], &list[first..]]).unwrap();
        assert_eq!(cut, (whole.clone(), meta.clone()), "cut at {first}");
    }
    assert_eq!(items(&list.chunks(1).collect::<Vec<_>>()).unwrap(), (whole, meta));
    let (none, meta) = items(&[&list_of(&[])]).unwrap();
    assert_eq!((none.len(), meta.resource_version.as_str()), (0, "8"));
}

#[test]
fn truncated_list_is_an_error() {
    let list = list_of(&[("a", 0), ("b", 200)]);
    // After the message, only two empty fields follow.
    for end in 0..list.len() - 4 {
        let error = items(&[&list[..end]]).unwrap_err();
        assert!(matches!(error, FrameError::Truncated { .. }), "{end}: {error}");
    }
    for end in [list.len() - 3, list.len() - 1] {
        assert!(matches!(items(&[&list[..end]]), Err(FrameError::Truncated { .. })), "{end}");
    }
}

#[test]
fn value_that_is_no_list_is_an_error() {
    for value in [&b"{\"kind\":\"PodList\"}"[..], &to_protobuf(pod("a", 0).as_bytes()).unwrap(), b"k8s\0\x12\x00"] {
        let error = items(&[value]).unwrap_err();
        assert!(matches!(error, FrameError::Unexpected { .. }), "{error}");
    }
}

#[test]
fn oversized_item_is_skipped_and_named_at_any_cut() {
    let image = "i".repeat(2_000);
    let large = format!(
        r#"{{"metadata":{{"name":"b","resourceVersion":"8"}},"spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}"#
    );
    let json = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"8"}},"items":[{},{large},{}]}}"#,
        pod("a", 0),
        pod("c", 0)
    );
    let list = to_protobuf(json.as_bytes()).unwrap();
    for first in 0..list.len() {
        let mut decoder = ProtobufListDecoder::new(1 << 10);
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        for chunk in [&list[..first], &list[first..]].iter().flat_map(|part| part.chunks(600)) {
            decoder.push(Bytes::copy_from_slice(chunk));
            loop {
                match decoder.next_item() {
                    Ok(Some(item)) => names.push(name(&item)),
                    Ok(None) => break,
                    Err(FrameError::Oversize(oversize)) => errors.push(*oversize),
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(decoder.window.held.len() <= 1 << 10);
        }
        assert_eq!(names, ["a", "c"], "{first}");
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!((error.place, &**error.meta.as_ref().unwrap().name()), (Place::Item(2), "b"));
        assert_eq!(decoder.finish().unwrap().resource_version.as_str(), "8");
    }
}
