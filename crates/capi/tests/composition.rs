//! Alternative layers in C: each sink gets one level, with all pictures of it.

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};
use std::thread;

// No picture is late on a machine in time.
use flaky_test::flaky_test as real_time;
use layercast_c::*;

// The macro of repeated tests knows no literals of this kind.
const ADDRESS: &CStr = c"127.0.0.1:0";
const FLOW: &CStr = c"film";
const SIZES: [usize; 3] = [100, 300, 800];
/// Pictures of a sink, and times that are sent.
const TAKEN: usize = 80;
const SENT: u8 = 150;

/// The layer and the time of each frame that a sink of this level gets.
fn received(url: &CStr, level: u32) -> Vec<(u8, u8)> {
    let [mut media, mut control, mut management] = [0; 3];
    let mut frames = Vec::new();
    // SAFETY: texts end with zeros, descriptors and frames have room, sizes are right.
    unsafe {
        let mut options = std::mem::zeroed();
        let size = size_of::<lc_join_options>();
        assert_eq!(lc_join_options_default(&mut options, size), LC_OK);
        options.level = level;
        let joined = lc_join_group(
            url.as_ptr(),
            &options,
            size,
            &mut media,
            &mut control,
            &mut management,
        );
        assert_eq!(joined, LC_OK);
        while frames.len() < TAKEN {
            let (mut frame, mut data) = (lc_played::default(), [0; 1_000]);
            let size = size_of::<lc_played>();
            let status = lc_recv(
                media,
                &mut frame,
                size,
                data.as_mut_ptr(),
                data.len(),
                5_000,
            );
            assert_eq!(status, LC_OK);
            assert_eq!(frame.len, SIZES[usize::from(frame.layer)]);
            frames.push((frame.layer, data[0]));
        }
    }
    for socket in [media, control, management] {
        assert_eq!(lc_close(socket), LC_OK);
    }
    frames
}

#[real_time]
fn each_sink_has_all_pictures_of_one_level() {
    let [mut server, mut media] = [0; 2];
    let mut url: [c_char; 512] = [0; 512];
    // SAFETY: texts end with zeros, descriptors have room, sizes are right.
    unsafe {
        assert_eq!(lc_server_open(ADDRESS.as_ptr(), &mut server), LC_OK);
        let mut spec = lc_flow_spec::default();
        let size = size_of::<lc_flow_spec>();
        assert_eq!(lc_flow_spec_default(&mut spec, size), LC_OK);
        spec.composition = LC_ALTERNATIVE;
        (
            spec.frame_rate_num,
            spec.picture_rate_num,
            spec.picture_rate_den,
        ) = (75, 25, 1);
        (spec.gop_n, spec.delay_max_ms) = (24, 200);
        for (layer, mean) in spec.layers.iter_mut().zip([100, 250, 550]) {
            layer.mean = mean;
        }
        let (none, name) = (null_mut(), FLOW.as_ptr());
        let opened = lc_open_group(server, name, &spec, size, null(), 0, &mut media, none, none);
        assert_eq!(opened, LC_OK);
        assert_eq!(lc_group_url(media, url.as_mut_ptr(), url.len()), LC_OK);
    }
    // SAFETY: it ends with a zero.
    let url = unsafe { CStr::from_ptr(url.as_ptr()) };
    let [low, high] = thread::scope(|scope| {
        let sinks = [0, 2].map(|level| scope.spawn(move || received(url, level)));
        assert_eq!(lc_wait_for_members(media, 2, 10_000), LC_OK);
        for time in 0..SENT {
            for (layer, size) in SIZES.iter().enumerate() {
                let data = vec![time; *size];
                let frame = lc_frame {
                    layer: layer as u8,
                    gop_start: u8::from(time % 8 == 0),
                    sound: 0,
                    time_us: LC_NO_TIME,
                    data: data.as_ptr(),
                    len: data.len(),
                };
                // SAFETY: the bytes are there during the call.
                let sent = unsafe { lc_send(media, &frame, size_of::<lc_frame>(), -1) };
                assert_eq!(sent, LC_OK);
            }
        }
        sinks.map(|sink| sink.join().unwrap())
    });
    for (frames, layer) in [(low, LC_BL), (high, LC_E2)] {
        // Before the first demand arrives another level may pass; it ends with a group of pictures.
        let settled = &frames[TAKEN - 50..];
        assert!(settled.iter().all(|it| it.0 == layer), "{frames:?}");
        assert!(
            frames.windows(2).all(|it| it[1].1 == it[0].1 + 1),
            "{frames:?}"
        );
    }
    assert_eq!(lc_close(media), LC_OK);
    assert_eq!(lc_close(server), LC_OK);
}
