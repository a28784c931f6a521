use super::*;
use bytes::Bytes;

fn take(to: &mut Incoming, seq: u64, text: &'static [u8], flags: XtpOptions) -> Taken {
    to.take(seq, &Payload::Bytes(Bytes::from_static(text)), flags)
}

/// What a user takes in one call.
fn receive(from: &mut Incoming, max: usize) -> Option<Chunk> {
    let chunk = from.lend(max)?;
    from.use_lent(chunk.size());
    Some(chunk)
}

/// Everything that can be read, as text.
fn read(from: &mut Incoming) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(chunk) = receive(from, usize::MAX) {
        let mut data = Vec::new();
        chunk.data.append_to(&mut data);
        let mut text = String::new();
        if chunk.gap {
            text += "...";
        }
        if let Some(tag) = chunk.tag {
            text += &format!("<{}>", String::from_utf8_lossy(&tag));
        }
        text += &String::from_utf8_lossy(&data);
        if chunk.end_of_message {
            text += ".";
        }
        out.push(text);
    }
    out
}

const MESSAGE: XtpOptions = XtpOptions::EOM;

#[test]
fn messages_stay_apart_in_whatever_order_they_come() {
    let mut stream = Incoming::new(1_024, true);
    let tagged = MESSAGE | XtpOptions::BTAG;
    assert_eq!(take(&mut stream, 6, b"FRAME001three", tagged), Taken::New);
    assert_eq!(stream.spans(9), [(6, 19)]);
    assert!(stream.has_gap() && read(&mut stream).is_empty());
    assert_eq!(take(&mut stream, 3, b"two", MESSAGE), Taken::New);
    assert_eq!(take(&mut stream, 0, b"one", MESSAGE), Taken::New);
    assert_eq!(
        take(&mut stream, 0, b"xxx", XtpOptions::NONE),
        Taken::Duplicate
    );
    assert!(!stream.has_gap());
    assert_eq!(read(&mut stream), ["one.", "two.", "<FRAME001>three."]);
    assert_eq!((stream.rseq(), stream.alloc()), (19, 19 + 1_024));
}

#[test]
fn what_is_not_protected_is_not_waited_for() {
    let mut stream = Incoming::new(1_024, true);
    let loose = MESSAGE | XtpOptions::NOERR;
    take(&mut stream, 0, b"one", loose);
    take(&mut stream, 6, b"three", XtpOptions::NONE);
    assert_eq!(read(&mut stream), ["one."]);
    assert_eq!(take(&mut stream, 15, b"five", loose), Taken::New);
    assert_eq!(read(&mut stream), ["...three", "...five."]);
    assert_eq!(take(&mut stream, 3, b"two", loose), Taken::Duplicate);
    assert!(stream.end_at(19) && stream.is_complete());
    assert!(!stream.end_at(20));
    assert_eq!(take(&mut stream, 19, b"x", loose), Taken::Violation);
}

#[test]
fn nothing_is_taken_beyond_the_window() {
    let mut stream = Incoming::new(1_024, true);
    let block = Payload::Zeros(1_000);
    assert_eq!(stream.take(0, &block, MESSAGE), Taken::New);
    // Of what does not fit the beginning is taken.
    assert_eq!(stream.take(1_000, &block, MESSAGE), Taken::Beyond);
    assert_eq!(stream.rseq(), 1_024);
    assert_eq!(stream.take(1_024, &block, XtpOptions::NOERR), Taken::Beyond);
    assert_eq!(stream.tell_alloc(), 1_024);
    assert!(!stream.has_opened(1_000));
    assert_eq!(receive(&mut stream, 600).map(|it| it.data.len()), Some(600));
    assert!(stream.has_opened(1_000));
    assert_eq!(stream.tell_alloc(), 1_624);
    assert_eq!(
        receive(&mut stream, 600).map(|it| it.end_of_message),
        Some(true)
    );
    assert_eq!(
        receive(&mut stream, 600).map(|it| it.end_of_message),
        Some(false)
    );
}

#[test]
fn short_messages_do_not_exhaust_memory() {
    let mut stream = Incoming::new(64 << 10, true);
    let text = Payload::Bytes(Bytes::from_static(b"x"));
    let taken = (0..60_000).filter(|&at| stream.take(at, &text, MESSAGE) == Taken::New);
    assert_eq!(taken.count(), 1_024);
    let mut stream = Incoming::new(64 << 10, true);
    for at in 0..30_000 {
        stream.take(2 * at + 1, &text, MESSAGE);
    }
    assert!(stream.memory() < 256 << 10, "{}", stream.memory());
}
