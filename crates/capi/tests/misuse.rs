//! What C may get wrong gives a status, and never more than that.

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

use layercast_c::*;

fn last_error() -> String {
    let mut text: [c_char; 200] = [0; 200];
    // SAFETY: the array is as large as is said.
    unsafe { lc_last_error(text.as_mut_ptr(), text.len()) };
    // SAFETY: it ends with a zero.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().unwrap().to_owned()
}

/// An open group without members: server, media, control, management.
fn group() -> [lc_socket; 4] {
    let [mut server, mut media, mut control, mut management] = [0; 4];
    // SAFETY: texts end with zeros, descriptors have room.
    let status = unsafe {
        assert_eq!(lc_server_open(c"127.0.0.1:0".as_ptr(), &mut server), LC_OK);
        lc_open_group(
            server,
            c"film".as_ptr(),
            null(),
            0,
            null(),
            0,
            &mut media,
            &mut control,
            &mut management,
        )
    };
    assert_eq!(status, LC_OK, "{}", last_error());
    [server, media, control, management]
}

fn frame(data: &[u8]) -> lc_frame {
    lc_frame {
        layer: LC_BL,
        gop_start: 1,
        sound: 0,
        time_us: LC_NO_TIME,
        data: data.as_ptr(),
        len: data.len(),
    }
}

#[test]
fn null_and_closed_and_foreign_descriptors_are_invalid() {
    let [server, media, control, management] = group();
    let mut fd = 0;
    // SAFETY: null is allowed everywhere, sizes are right or refused.
    unsafe {
        assert_eq!(lc_server_open(null(), &mut fd), LC_EINVAL);
        assert_eq!(last_error(), "address is null");
        let nameless = lc_open_group(
            server,
            null(),
            null(),
            0,
            null(),
            0,
            &mut fd,
            null_mut(),
            null_mut(),
        );
        assert_eq!(nameless, LC_EINVAL);
        let none = null_mut();
        assert_eq!(
            lc_join_group(null(), null(), 0, &mut fd, none, none),
            LC_EINVAL
        );
        for wrong in [-1, 0, 12_345, server, control, management] {
            let sent = lc_send(wrong, &frame(b"x"), size_of::<lc_frame>(), 0);
            assert_eq!(sent, LC_EINVAL, "{wrong}");
        }
        let size = size_of::<lc_frame>();
        assert_eq!(lc_send(media, null(), size, 0), LC_EINVAL);
        assert_eq!(lc_send(media, &frame(b"x"), size - 1, 0), LC_EINVAL);
        assert!(last_error().contains("bytes"), "{}", last_error());
        assert_eq!(lc_send(media, &frame(b""), size, 0), LC_EINVAL);
        let layerless = lc_frame {
            layer: 3,
            ..frame(b"x")
        };
        assert_eq!(lc_send(media, &layerless, size, 0), LC_EINVAL);
        let dataless = lc_frame {
            data: null(),
            ..frame(b"x")
        };
        assert_eq!(lc_send(media, &dataless, size, 0), LC_EINVAL);
        let mut played = lc_played::default();
        let size = size_of::<lc_played>();
        assert_eq!(
            lc_recv(media, &mut played, size, null_mut(), 0, 0),
            LC_EINVAL
        );
        assert_eq!(lc_control_send(control, null(), 0, null(), 0), LC_EINVAL);
        let mut url = [0; 8];
        assert_eq!(lc_group_url(media, url.as_mut_ptr(), url.len()), LC_EINVAL);
        assert_eq!(lc_group_url(media, null_mut(), 0), LC_EINVAL);
    }
    assert_eq!(lc_poll_fd(media), LC_EINVAL);
    assert!(lc_poll_fd(management) > 0);
    assert_eq!(lc_register_soc(management, control), LC_EINVAL);
    for descriptor in [control, management, media, server] {
        assert_eq!(lc_close(descriptor), LC_OK);
        assert_eq!(lc_close(descriptor), LC_EINVAL);
    }
    assert_eq!(lc_allow_raise(management), LC_EINVAL);
}

#[test]
fn compositions_that_do_not_exist_are_invalid() {
    let mut server = 0;
    // SAFETY: texts end with zeros, descriptors have room, sizes are right.
    unsafe {
        assert_eq!(lc_server_open(c"127.0.0.1:0".as_ptr(), &mut server), LC_OK);
        let mut spec = lc_flow_spec::default();
        let size = size_of::<lc_flow_spec>();
        assert_eq!(lc_flow_spec_default(&mut spec, size), LC_OK);
        assert_eq!(spec.composition, LC_ADDITIVE);
        for (layer, mean) in spec.layers.iter_mut().zip([100, 300, 200]) {
            layer.mean = mean;
        }
        let mut media = 0;
        let mut open = |spec: &lc_flow_spec| {
            let none = null_mut();
            let name = c"film".as_ptr();
            lc_open_group(server, name, spec, size, null(), 0, &mut media, none, none)
        };
        let stacked = lc_flow_spec {
            composition: 2,
            ..spec
        };
        assert_eq!(open(&stacked), LC_EINVAL);
        assert_eq!(last_error(), "composition 2 is unknown");
        // A level below the one beneath it.
        let wrong = lc_flow_spec {
            composition: LC_ALTERNATIVE,
            ..spec
        };
        assert_eq!(open(&wrong), LC_EINVAL);
        assert!(last_error().contains("are alternative"), "{}", last_error());
        let rateless = lc_flow_spec {
            picture_rate_num: 25,
            ..spec
        };
        assert_eq!(open(&rateless), LC_EINVAL);
        assert_eq!(open(&spec), LC_OK, "{}", last_error());
        assert_eq!(lc_close(media), LC_OK);
    }
    assert_eq!(lc_close(server), LC_OK);
}

#[test]
fn a_stream_needs_a_file_descriptor_and_something_that_keeps_it_joined() {
    let url = c"layercast://127.0.0.1:1/film";
    let none = null_mut();
    let mut management = 0;
    let fd = || std::os::fd::IntoRawFd::into_raw_fd(std::fs::File::create("/dev/null").unwrap());
    // SAFETY: texts end with zeros, descriptors have room, each file descriptor is given away once.
    unsafe {
        let join = |url, fd, management| lc_join_stream(url, null(), 0, fd, none, management);
        assert_eq!(join(url.as_ptr(), -1, &mut management), LC_EINVAL);
        assert_eq!(last_error(), "fd -1 is no file descriptor");
        assert_eq!(join(url.as_ptr(), fd(), none), LC_EINVAL);
        assert!(
            last_error().contains("keeps the flow joined"),
            "{}",
            last_error()
        );
        assert_eq!(join(null(), fd(), &mut management), LC_EINVAL);
        assert_eq!(join(c"film".as_ptr(), fd(), &mut management), LC_EINVAL);
    }
}

#[test]
fn a_stream_that_cannot_be_served_says_why() {
    let [address, name] = [c"127.0.0.1:0", c"film"].map(|text| text.as_ptr());
    let mut stream = 0;
    let file = |octets: &[u8]| {
        let mut file = tempfile();
        std::io::Write::write_all(&mut file, octets).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        std::os::fd::IntoRawFd::into_raw_fd(file)
    };
    let mut options = lc_serve_options {
        map: c"sideways".as_ptr(),
        ..default_options()
    };
    // SAFETY: texts end with zeros, descriptors have room, each file descriptor is given away once.
    unsafe {
        let serve = |address, name, options: *const lc_serve_options, fd, stream| {
            lc_serve_stream(
                address,
                name,
                options,
                size_of::<lc_serve_options>(),
                fd,
                stream,
            )
        };
        assert_eq!(serve(address, name, null(), -1, &mut stream), LC_EINVAL);
        assert_eq!(last_error(), "fd -1 is no file descriptor");
        assert_eq!(
            serve(address, name, null(), file(b""), null_mut()),
            LC_EINVAL
        );
        assert_eq!(
            serve(address, null(), null(), file(b""), &mut stream),
            LC_EINVAL
        );
        assert_eq!(
            serve(c"nowhere".as_ptr(), name, null(), file(b""), &mut stream),
            LC_ENET
        );
        assert_eq!(
            serve(address, name, &options, file(b""), &mut stream),
            LC_EINVAL
        );
        assert!(
            last_error().starts_with("map sideways: "),
            "{}",
            last_error()
        );
        (options.map, options.program) = (null(), 65_536);
        assert_eq!(
            serve(address, name, &options, file(b""), &mut stream),
            LC_EINVAL
        );

        assert_eq!(
            serve(address, name, null(), file(&[7; 5_000]), &mut stream),
            LC_OK
        );
        assert_eq!(lc_stream_wait(stream, 2, 0), LC_EINVAL);
        for until in [LC_SERVED, LC_ENDED] {
            assert_eq!(lc_stream_wait(stream, until, 20_000), LC_ENET);
            assert!(last_error().contains("film"), "{}", last_error());
        }
        let mut url = [0; 300];
        assert_eq!(lc_group_url(stream, url.as_mut_ptr(), url.len()), LC_OK);
        assert_eq!(lc_poll_fd(stream), LC_EINVAL);
        assert_eq!(lc_close(stream), LC_OK);
        assert_eq!(lc_stream_wait(stream, LC_SERVED, 0), LC_EINVAL);
    }
    // Closing it ends a call that waits.
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let fd = std::os::fd::IntoRawFd::into_raw_fd(reader);
    // SAFETY: as above.
    let served = unsafe { lc_serve_stream(address, name, null(), 0, fd, &mut stream) };
    assert_eq!(served, LC_OK, "{}", last_error());
    let waiting = std::thread::spawn(move || lc_stream_wait(stream, LC_SERVED, -1));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(lc_close(stream), LC_OK);
    let released = waiting.join().unwrap();
    assert!([LC_ECLOSED, LC_EINVAL].contains(&released), "{released}");
    drop(writer);
}

fn default_options() -> lc_serve_options {
    let mut options = std::mem::MaybeUninit::uninit();
    // SAFETY: it has the size, and is written.
    unsafe {
        let size = size_of::<lc_serve_options>();
        assert_eq!(lc_serve_options_default(options.as_mut_ptr(), size), LC_OK);
        options.assume_init()
    }
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("layercast-c-{}", std::process::id()));
    let mut open = std::fs::OpenOptions::new();
    let file = open
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn change_qos_takes_exactly_one_option_of_the_right_size() {
    let [server, media, control, management] = group();
    let alarm = lc_alarm {
        window_ms: 1_000,
        threshold: 1.0,
        ..lc_alarm::default()
    };
    let ask = |options, alarm: *const lc_alarm, size| {
        // SAFETY: null or an alarm, and the size is right or refused.
        unsafe { lc_change_qos(management, options, alarm.cast(), size) }
    };
    let size = size_of::<lc_alarm>();
    assert_eq!(ask(0, &alarm, size), LC_EINVAL);
    assert_eq!(ask(LC_EVENT | LC_MAINT, &alarm, size), LC_EINVAL);
    assert_eq!(ask(256, &alarm, size), LC_EINVAL);
    assert_eq!(ask(LC_EVENT, &alarm, size - 1), LC_EINVAL);
    assert_eq!(ask(LC_EVENT, null(), size), LC_EINVAL);
    assert_eq!(ask(LC_FLOW_SPEC, &alarm, size), LC_EINVAL);
    assert_eq!(ask(LC_MAINT, &alarm, size), LC_EINVAL);
    let unknown = lc_alarm { metric: 9, ..alarm };
    assert_eq!(ask(LC_EVENT, &unknown, size), LC_EINVAL);
    assert_eq!(last_error(), "metric 9 is unknown");
    // A group that nothing is known of yet has nothing to change.
    assert_eq!(ask(LC_EVENT, &alarm, size), LC_ECLOSED);
    for descriptor in [control, management, media, server] {
        assert_eq!(lc_close(descriptor), LC_OK);
    }
}

#[test]
fn waiting_ends_in_time() {
    let [server, media, control, management] = group();
    let mut upcall = std::mem::MaybeUninit::<lc_upcall>::uninit();
    // SAFETY: there is room for an upcall.
    let status =
        unsafe { lc_signal_qos(management, upcall.as_mut_ptr(), size_of::<lc_upcall>(), 20) };
    assert_eq!(status, LC_ETIMEDOUT);
    assert_eq!(lc_wait_for_members(media, 1, 20), LC_ETIMEDOUT);
    // SAFETY: null is allowed.
    let status = unsafe { lc_control_recv(control, null_mut(), 0, null_mut(), 0, null_mut(), 0) };
    assert_eq!(status, LC_ETIMEDOUT);
    for descriptor in [server, media, control, management] {
        assert_eq!(lc_close(descriptor), LC_OK);
    }
}

#[test]
fn names_of_statuses_are_those_of_the_interface() {
    for (status, name) in [(LC_OK, "OK"), (LC_EADMIT, "EADMIT"), (77, "?")] {
        // SAFETY: it is never null and ends with a zero.
        let shown = unsafe { CStr::from_ptr(lc_status_name(status)) };
        assert_eq!(shown.to_str(), Ok(name));
    }
}
