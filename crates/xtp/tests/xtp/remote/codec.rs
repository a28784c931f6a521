use bytes::{Bytes, BytesMut};
use layercast_wire::Payload;
use layercast_xtp::remote::{FrameError, Frames, MAX_DATA, MAX_FRAME, Report, Request, take_frame};
use proptest::prelude::*;

use super::samples::{bytes, conversations, requests};
use super::{corpus, xtpd};

#[test]
fn each_request_comes_back_as_it_was() {
    for (name, request, data) in requests() {
        let mut frames = Frames::default();
        frames.push(&request, &Payload::Bytes(data.clone()));
        let mut sent = BytesMut::from(&bytes(&mut frames)[..]);
        let frame = take_frame(&mut sent).unwrap().expect(name);
        assert_eq!(
            Request::decode(frame.clone()),
            Ok((request, data)),
            "{name}"
        );
        // Only data may stand behind a message.
        let longer = [&frame[..], b"more"].concat();
        let found = Request::decode(Bytes::from(longer));
        assert_eq!(found.is_ok(), name == "send", "{name}");
    }
}

#[test]
fn a_frame_is_whole_or_not_there_and_never_too_long() {
    let mut frames = Frames::default();
    let data = Payload::Bytes(Bytes::from(vec![7; MAX_DATA]));
    let (_, request, _) = requests().swap_remove(6);
    frames.push(&request, &data);
    frames.push(&request, &Payload::Zeros(10));
    let len = frames.len();
    let sent = bytes(&mut frames);
    assert_eq!((sent.len(), frames.len()), (len, 0));
    let mut input = BytesMut::new();
    let mut taken = Vec::new();
    for byte in sent {
        input.extend_from_slice(&[byte]);
        if let Some(frame) = take_frame(&mut input).unwrap() {
            taken.push(Request::decode(frame).unwrap().1.len());
        }
    }
    assert_eq!(taken, [MAX_DATA, 10]);
    let mut long = BytesMut::from(&(MAX_FRAME as u32 + 1).to_le_bytes()[..]);
    assert_eq!(
        take_frame(&mut long),
        Err(FrameError::TooLong(MAX_FRAME + 1))
    );
}

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("xtpd", xtpd::xtpd)]);
}

proptest! {
    #[test]
    fn bytes_are_a_message_or_an_error(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let frame = Bytes::from(data);
        let _ = (Request::decode(frame.clone()), Report::decode(frame));
    }

    #[test]
    fn damaged_conversations_do_no_harm(
        which in 0_usize..18,
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        more in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut data = conversations().swap_remove(which).1;
        for (at, byte) in damage {
            let at = at % data.len();
            data[at] = byte;
        }
        data.extend(more);
        xtpd::xtpd(&data);
    }
}
