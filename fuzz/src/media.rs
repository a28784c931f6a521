//! Clips: whatever file it is, it becomes frames or an error, and frames become a stream.

use bytes::Bytes;
use layercast_core::{Composition, FrameRate, Layer, Media, PerLayer, Rate, Serial, Span, Time};
use layercast_media::{
    ClassCensus, ClassifierConfig, Clip, CoefficientFilter, Container, FlowWriter, Frame,
    H264Writer, Ingest, Map, OutputForm, Picture, Received, RtpPacket, RtpSession, Shaping,
    StreamWriter, TimedFrame, TsClassifier, TsSplitter, TsWriter, identify,
};

/// An MPEG elementary stream; the bytes also as a frame, as a receiver might get them.
pub fn mpeg_es(data: &[u8]) {
    clip(data);
    let mut writer = StreamWriter::new();
    let mut out = Vec::new();
    for (seq, layer) in Layer::ALL.into_iter().cycle().take(6).enumerate() {
        writer.frame(Serial(seq as u32 * 2), layer, true, data, &mut out);
    }
    writer.finish(&mut out);
}

/// An MPEG system or program stream.
pub fn mpeg_ps(data: &[u8]) {
    clip(data);
}

/// A frame-size trace.
pub fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let frame_rate = FrameRate { num: 24, den: 1 };
    if let Ok(clip) = Clip::parse_trace(text, frame_rate) {
        assert_eq!(
            Clip::parse_trace(&clip.to_trace(), frame_rate),
            Ok(clip.clone())
        );
        clip.summary();
        clip.flow_spec();
    }
}

fn clip(data: &[u8]) {
    let Ok(clip) = Clip::parse(Bytes::copy_from_slice(data)) else {
        return;
    };
    assert!(!clip.frames.is_empty());
    assert_ne!(clip.info.container, Container::Trace);
    let bytes: usize = clip.frames.iter().map(|frame| frame.size as usize).sum();
    // A bare I picture gets the last sequence header and extension put before it.
    let headers = 150 * clip.frames.iter().filter(|frame| frame.gop_start).count();
    let elementary = matches!(clip.info.container, Container::MpegEs | Container::MpegPs);
    assert!(
        !elementary || bytes <= data.len() + headers,
        "{bytes} bytes of frames in a file of {}",
        data.len()
    );
    clip.summary();
    clip.flow_spec();

    // Once whole, once with every third frame lost.
    for lost in [usize::MAX, 3] {
        let mut writer = StreamWriter::new();
        let mut out = Vec::new();
        let mut sent = 0;
        for (index, frame) in clip.frames.iter().enumerate() {
            let data = frame
                .data
                .as_ref()
                .expect("a frame of a file has its bytes");
            assert_eq!(data.len(), frame.size as usize);
            if index % lost == lost - 1 {
                continue;
            }
            sent += 1;
            let seq = Serial(index as u32);
            writer.frame(seq, frame.layer(), frame.gop_start, data, &mut out);
        }
        writer.finish(&mut out);
        let stats = writer.stats();
        assert_eq!(
            stats.written + stats.undecodable + stats.skipped + stats.stale,
            sent
        );
    }
}

/// A stream through the filters; the bytes also as a frame. The output of a filter is legal: it goes through a
/// filter again, and nothing is left to drop.
pub fn filter(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let frames = match Clip::parse(data.clone()) {
        Ok(clip) => {
            for bps in [100_000, 1_000_000] {
                if let Ok(filtered) = clip.shape(Rate::from_bps(bps)) {
                    assert_eq!(filtered.clip.frames.len(), clip.frames.len());
                }
            }
            clip.frames
        }
        Err(_) => vec![Frame {
            picture: Picture::I,
            layer: Layer::Base,
            time: None,
            gop_start: true,
            sound: false,
            size: data.len() as u32,
            data: Some(data),
        }],
    };
    for k in [1, 3, 20, 64] {
        let mut once = CoefficientFilter::new(Shaping::LowPass(k));
        let mut twice = CoefficientFilter::new(Shaping::LowPass(k));
        for frame in &frames {
            if let Ok(out) = once.apply(frame) {
                check_filtered(frame, &out);
                assert_eq!(twice.apply(&out), Ok(out), "k = {k}");
            } else {
                // The headers before the fault are in force, here and there.
                let _ = twice.apply(frame);
            }
        }
    }
    let mut shaper = CoefficientFilter::new(Shaping::LowPass(64));
    for frame in &frames {
        let budget = frame.size / 3;
        shaper.set_shaping(Shaping::Drs { budget });
        let over = shaper.stats().over_budget;
        if let Ok(out) = shaper.apply(frame) {
            check_filtered(frame, &out);
            assert_eq!(
                out.size > budget,
                shaper.stats().over_budget > over,
                "{} of {budget} bytes",
                out.size
            );
        }
    }
}

/// The same units in the same order, and no more than a vector a slice more bytes.
fn check_filtered(frame: &Frame, out: &Frame) {
    let units = |frame: &Frame| -> Vec<u8> {
        let data = frame.data.as_deref().expect("filtered bytes");
        let found = data.windows(4).filter(|code| code[..3] == [0, 0, 1]);
        found.map(|code| code[3]).collect()
    };
    assert_eq!(units(frame), units(out));
    let slack = 8 * units(frame).len();
    assert!(out.size as usize <= frame.size as usize + slack);
}

/// An H.264 byte stream; the bytes also as a frame, as a receiver might get them.
pub fn h264(data: &[u8]) {
    let mut writer = H264Writer::new();
    let mut out = Vec::new();
    for (seq, layer) in Layer::ALL.into_iter().cycle().take(6).enumerate() {
        writer.frame(Serial(seq as u32 * 2), layer, true, data, &mut out);
    }
    of_container(data, &[Container::H264]);
}

/// An H.265 byte stream; the bytes also as frames.
pub fn h265(data: &[u8]) {
    as_frames(Media::H265, data);
    of_container(data, &[Container::H265]);
}

/// AV1, VP8 or VP9 in IVF, or OBUs of AV1; the bytes also as frames.
pub fn ivf(data: &[u8]) {
    for media in [Media::Av1, Media::Vp8, Media::Vp9] {
        as_frames(media, data);
    }
    // Through a pipe, cut anywhere.
    let piped = |piece: usize| {
        let mut ingest = Ingest::pipe();
        for piece in data.chunks(piece) {
            ingest.push(Time::ZERO, piece);
        }
        ingest.finish();
        let frames: Vec<Frame> = std::iter::from_fn(|| ingest.poll())
            .map(|it| it.frame)
            .collect();
        (ingest.media(), ingest.misfit(), frames)
    };
    if data.starts_with(b"DKIF") {
        let whole = piped(usize::MAX);
        assert_eq!(piped(11), whole);
    }
    of_container(data, &[Container::Ivf, Container::Obu]);
}

/// The bytes as the frames of a flow.
fn as_frames(media: Media, data: &[u8]) {
    let frames = Layer::ALL.map(|layer| Frame {
        data: Some(Bytes::copy_from_slice(data)),
        ..Frame::of_layer(layer, true, data.len() as u32)
    });
    for form in [OutputForm::Native, OutputForm::Rtp(7)] {
        write(media, form, &frames, usize::MAX);
    }
}

/// A stream that is one of these: with each map it has the same frames, and each form of it can be written.
fn of_container(data: &[u8], containers: &[Container]) {
    let Ok(clip) = Clip::parse(Bytes::copy_from_slice(data)) else {
        return;
    };
    if !containers.contains(&clip.info.container) {
        return;
    }
    for map in Map::ALL {
        // The map moves pictures between layers and does nothing else.
        match Clip::of_program(Bytes::copy_from_slice(data), None, map) {
            Ok(mapped) => {
                let bytes = |clip: &Clip| {
                    clip.frames
                        .iter()
                        .map(|it| it.data.clone())
                        .collect::<Vec<_>>()
                };
                assert_eq!(bytes(&mapped), bytes(&clip));
                let starts = mapped.frames.iter().filter(|it| it.gop_start);
                assert!(starts.map(Frame::layer).all(|it| it == Layer::Base));
            }
            Err(error) => assert!(map.needs_references(), "{map}: {error}"),
        }
    }
    assert!(clip.frames[0].gop_start);
    clip.summary();
    clip.flow_spec();
    for form in [
        OutputForm::Native,
        OutputForm::Obu,
        OutputForm::Transport,
        OutputForm::Rtp(7),
    ] {
        for lost in [usize::MAX, 3] {
            write(clip.info.codec, form, &clip.frames, lost);
        }
    }
}

/// A transport stream, whole and in pieces, of any packet size, and one program of it alone; what a receiver
/// writes of it is a transport stream again.
pub fn ts(data: &[u8]) {
    let split_of = |program: Option<u16>, piece: usize| -> Vec<TimedFrame> {
        let mut splitter = TsSplitter::of_program(program);
        for piece in data.chunks(piece) {
            splitter.push(piece);
        }
        splitter.finish();
        std::iter::from_fn(|| splitter.poll()).collect()
    };
    let split = |piece| split_of(None, piece);
    let whole = split(usize::MAX);
    assert_eq!(split(188), whole);
    assert_eq!(split(1_472), whole);
    let alone = split_of(Some(1), usize::MAX);
    for timed in whole.iter().chain(&alone) {
        let packets = timed.frame.data.as_deref().expect("a real frame");
        assert!(
            packets.len().is_multiple_of(188) && packets.iter().step_by(188).all(|&b| b == 0x47)
        );
    }
    let _ = identify(data).map(|known| known.remedy.to_string());
    for (program, map) in [None, Some(1)].into_iter().cycle().zip(Map::ALL) {
        if let Ok(clip) = Clip::of_program(Bytes::copy_from_slice(data), program, map) {
            assert!(clip.frames[0].gop_start);
            let _ = (clip.summary(), clip.advice());
        }
    }
    let mut ingest = Ingest::new();
    for piece in data.chunks(1_000) {
        ingest.push(Time::ZERO, piece);
        while ingest.poll().is_some() {}
    }
    ingest.finish();
    let _ = (ingest.problem(), ingest.codec());
    let mut writer = TsWriter::new();
    let mut out = Vec::new();
    let received = Received {
        seq: Serial(0),
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        missing: PerLayer::default(),
        emitted: Time::ZERO,
        data,
    };
    writer.frame(&received, &mut out);
    assert!(out.len().is_multiple_of(188));
    let frames: Vec<Frame> = whole.into_iter().map(|timed| timed.frame).collect();
    for lost in [usize::MAX, 3] {
        let out = write(Media::MpegTs, OutputForm::Native, &frames, lost);
        assert!(
            out.chunks(188)
                .all(|packet| packet.len() == 188 && packet[0] == 0x47)
        );
    }
}

/// RTP datagrams, each behind a byte with its length in fours. One of no length stands for a while in which
/// nothing comes.
pub fn rtp(data: &[u8]) {
    let mut ingest = Ingest::new();
    let mut now = Time::ZERO;
    let mut rest = data;
    let mut frames = Vec::new();
    while let Some((&len, after)) = rest.split_first() {
        let (datagram, after) = after.split_at(after.len().min(usize::from(len) * 4));
        rest = after;
        if let Some(packet) = RtpPacket::parse(datagram) {
            let mut out = Vec::new();
            packet.encode_into(&mut out);
            assert_eq!(RtpPacket::parse(&out), Some(packet));
        }
        if datagram.is_empty() {
            now += Span::from_ms(250);
            ingest.on_timeout(now);
            assert!(ingest.next_timeout().is_none_or(|at| at > now));
        } else {
            now += Span::from_ms(1);
            ingest.push(now, datagram);
        }
        while ingest.poll_note().is_some() {}
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    let frames: Vec<Frame> = frames.into_iter().map(|timed| timed.frame).collect();
    if let Some(media) = ingest.media() {
        for form in [OutputForm::Transport, OutputForm::Rtp(1)] {
            write(media, form, &frames, 4);
        }
    }
    for codec in ["AV1", "VP8", "VP9"] {
        described(codec, data);
    }
}

/// The payloads of RTP packets of a codec that is known from the session description.
fn described(codec: &str, data: &[u8]) {
    let text = format!("m=video 5004 RTP/AVP 96\na=rtpmap:96 {codec}/90000\n");
    let Ok(session) = RtpSession::parse(&text) else {
        return;
    };
    let mut ingest = Ingest::session(&session);
    let mut rest = data;
    let mut seq = 0u16;
    while let [flags, len, after @ ..] = rest {
        let (payload, after) = after.split_at(after.len().min(usize::from(*len)));
        rest = after;
        // Some are lost.
        seq = seq.wrapping_add(1 + u16::from(*flags == 0x55));
        let packet = RtpPacket {
            marker: flags & 1 != 0,
            payload_type: 96,
            seq,
            timestamp: u32::from(flags >> 1),
            ssrc: 1,
            payload,
        };
        let mut datagram = Vec::new();
        packet.encode_into(&mut datagram);
        ingest.push(Time::ZERO, &datagram);
    }
    ingest.finish();
    let frames = std::iter::from_fn(|| ingest.poll()).map(|it| it.frame);
    let frames: Vec<Frame> = frames.collect();
    if let Some(media) = ingest.media() {
        write(media, OutputForm::Rtp(1), &frames, 4);
    }
}

/// Transport streams with a rendition each, or programs of one; the first octet says how many and how they come together. What a
/// receiver writes whose level changes is packets of one stream.
pub fn splice(data: &[u8]) {
    let Some((&how, data)) = data.split_first() else {
        return;
    };
    let inputs = usize::from(how % 3) + 1;
    let mut ingest = Ingest::renditions(inputs);
    let part = data.len().div_ceil(inputs).next_multiple_of(188).max(188);
    let mut parts: Vec<_> = data.chunks(part).map(|it| it.chunks(1_316)).collect();
    let mut frames = Vec::new();
    for ms in 0.. {
        let mut is_over = true;
        for (input, pieces) in parts.iter_mut().enumerate() {
            if let Some(piece) = pieces.next() {
                is_over = false;
                ingest.push_from(Time::ZERO + Span::from_ms(ms), input, piece);
            }
        }
        frames.extend(std::iter::from_fn(|| ingest.poll()));
        while ingest.poll_rendition_note().is_some() {}
        if is_over {
            break;
        }
    }
    (0..inputs).for_each(|input| ingest.finish_input(input));
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    let frames: Vec<Frame> = frames.into_iter().map(|timed| timed.frame).collect();
    let files: Vec<Bytes> = data.chunks(part).map(Bytes::copy_from_slice).collect();
    let _ = Clip::of_renditions(&files).map(|stored| stored.clip.summary());
    for seed in [0, usize::from(how)] {
        let rate = FrameRate { num: 25, den: 1 };
        let mut writer = FlowWriter::new(Media::MpegTs, rate, OutputForm::Native);
        writer.set_composition(Composition::Alternative);
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let (mut level, mut missing) = (0, PerLayer::default());
        for (index, frame) in frames.iter().enumerate() {
            if frame.gop_start && frame.layer() == Layer::Base {
                level = (level + seed) % 3;
            }
            if !frame.sound && frame.layer() as usize != level {
                missing[frame.layer()] += 1;
                continue;
            }
            let received = Received {
                seq: Serial(index as u32),
                layer: frame.layer(),
                gop_start: frame.gop_start,
                sound: frame.sound,
                missing: std::mem::take(&mut missing),
                emitted: Time::ZERO + rate.due(index as u64),
                data: frame.data.as_deref().expect("a real frame"),
            };
            writer.frame(&received, &mut out, &mut ends);
        }
        writer.finish(&mut out);
        assert!(out.len().is_multiple_of(188) && out.chunks(188).all(|it| it[0] == 0x47));
    }
}

/// What a receiver writes that loses every `lost`th frame.
fn write(media: Media, form: OutputForm, frames: &[Frame], lost: usize) -> Vec<u8> {
    let rate = FrameRate { num: 25, den: 1 };
    let mut writer = FlowWriter::new(media, rate, form);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut missing = PerLayer::default();
    for (index, frame) in frames.iter().enumerate() {
        if index % lost == lost - 1 {
            missing[frame.layer()] += 1;
            continue;
        }
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: std::mem::take(&mut missing),
            emitted: Time::ZERO + Span::from_secs(1) + rate.due(index as u64),
            data: frame.data.as_deref().expect("a real frame"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    assert!(ends.is_sorted());
    out
}

/// A transport or elementary stream: each octet has one class, whatever the stream is.
pub fn classes(data: &[u8]) {
    if let Ok(report) = ClassCensus::of(data, ClassifierConfig::default()) {
        assert_eq!(report.octets + report.skipped_octets, data.len() as u64);
        let sum: u64 = report.classes.iter().map(|it| it.octets).sum();
        assert_eq!(sum, report.octets);
    }
    // As packets, aligned or not.
    let mut classifier = TsClassifier::default();
    for packet in data.as_chunks().0 {
        let mut end = 0;
        let _ = classifier.push(packet, |_, range| {
            assert!(range.start == end && !range.is_empty());
            end = range.end;
        });
        assert_eq!(end, packet.len());
    }
    let packets = data.len() / 188;
    assert_eq!(classifier.stats().packets, packets as u64);
}
