use proptest::prelude::*;

use super::*;

fn said<T: Quantity>(text: &str) -> String {
    T::parse(text).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_examples_of_the_manual_are_read() {
    let ms = |n| Ok(Span::from_ms(n));
    assert_eq!(Span::parse("250ms"), ms(250));
    assert_eq!(Span::parse("0.5 us"), Ok(Span::from_ns(500)));
    assert_eq!(Span::parse("1.5 min"), ms(90_000));
    assert_eq!(Rate::parse("100 Mbit/s"), Ok(Rate::from_bps(100_000_000)));
    assert_eq!(
        Rate::parse("1 Tbit/s"),
        Ok(Rate::from_bps(1_000_000_000_000))
    );
    assert_eq!(Rate::parse("1.5 Mbit/s"), Ok(Rate::from_bps(1_500_000)));
    assert_eq!(Rate::parse("3500 cells/s"), Ok(CellRate(3_500).rate()));
    assert_eq!(CellRate::parse("3500 cells/s"), Ok(CellRate(3_500)));
    assert_eq!(QueueSize::parse("256 cells"), Ok(QueueSize::Cells(256)));
    assert_eq!(QueueSize::parse("64 KiB"), Ok(QueueSize::Bytes(65_536)));
    let half = QueueSize::Time(Span::from_ms(500));
    assert_eq!(QueueSize::parse("500 ms"), Ok(half));
    assert_eq!(ByteCount::parse("2 GB"), Ok(ByteCount(2_000_000_000)));
}

#[test]
fn numbers_as_programs_print_them_are_read() {
    // More digits than the resolution are rounded to it; what is above 0 stays above 0.
    let span = Span::parse("14.499933504006384s");
    assert_eq!(span, Ok(Span::from_ps(14_499_933_504_006)));
    assert_eq!(Span::parse("5e-06s"), Ok(Span::from_us(5)));
    assert_eq!(Span::parse("1E-3 s"), Ok(Span::from_ms(1)));
    assert_eq!(
        Span::parse("0.0000000000000000000000001s"),
        Ok(Span::from_ps(1))
    );
    assert_eq!(Span::parse("0.0000000000016s"), Ok(Span::from_ps(2)));
    assert_eq!(Rate::parse("1e6 bit/s"), Ok(Rate::from_bps(1_000_000)));
    assert_eq!(Rate::parse("0.1 bit/s"), Ok(Rate::from_bps(1)));
}

#[test]
fn errors_name_the_cause_and_the_accepted_forms() {
    for (error, parts) in [
        (
            said::<Rate>("10 Mbps/s"),
            ["unknown unit \"Mbps/s\"", "\"10 Mbit/s\""],
        ),
        (
            said::<Rate>("10 Mbps"),
            ["unknown unit", "did you mean \"10 Mbit/s\""],
        ),
        (said::<Rate>("5 Mbit"), ["unknown unit", "\"5 Mbit/s\""]),
        (said::<Rate>("10 MB/s"), ["in bytes", "8 Mbit/s"]),
        (said::<Rate>("0 Mbit/s"), ["is zero", "above 0"]),
        (said::<Rate>("0"), ["is zero", "above 0"]),
        (said::<Rate>("10"), ["has no unit", "100 Mbit/s"]),
        (said::<Rate>("11 Tbit/s"), ["too large", "10 Tbit/s"]),
        (
            said::<Rate>("fast"),
            ["does not start with a number", "64 kbit/s"],
        ),
        (said::<Span>("-20ms"), ["is negative", "250ms"]),
        (said::<Span>("3 sec"), ["unknown unit \"sec\"", "\"3 s\""]),
        (said::<Span>("3 m"), ["\"3 min\"", "\"3 ms\""]),
        (said::<Span>("1,5 s"), ["comma", "decimal point"]),
        (said::<Span>("9999 h"), ["too large", "a time such as"]),
        (said::<Span>(""), ["is empty", "a time such as"]),
        (
            said::<ByteCount>("64 KB"),
            ["unknown unit \"KB\"", "\"64 kB\" or \"64 KiB\""],
        ),
        (
            said::<QueueSize>("64 KB"),
            ["unknown unit \"KB\"", "\"64 kB\""],
        ),
        (said::<QueueSize>("50"), ["has no unit", "256 cells"]),
        (
            said::<QueueSize>("500 msec"),
            ["unknown unit", "\"500 ms\""],
        ),
        (
            probability("1.5").unwrap_err(),
            ["out of range", "from 0 to 1"],
        ),
        (probability("much").unwrap_err(), ["not a number", "3%"]),
    ] {
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

#[test]
fn nonsense_is_refused() {
    for text in [
        "",
        "s",
        ".",
        ".s",
        "1",
        "-1 s",
        "+1 s",
        "1 lightyear",
        "1e31 s",
        "1e s",
        "NaN s",
        "1..2 s",
        "99999999999999999999 h",
        "1 s s",
    ] {
        assert!(Span::parse(text).is_err(), "{text:?}");
        assert!(Rate::parse(text).is_err(), "{text:?}");
        assert!(QueueSize::parse(text).is_err(), "{text:?}");
    }
    assert!(CellRate::parse("5000000000 cells/s").is_err());
}

#[test]
fn no_time_is_written_in_seconds() {
    assert_eq!(Span::ZERO.write(), "0s");
    assert_eq!(Span::from_ps(3).write(), "3ps");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        ps in 0..=LONGEST.as_ps(), bps in 1..=FASTEST.as_bps(), cells: u32, bytes in 0..=MOST_BYTES,
    ) {
        let span = Span::from_ps(ps);
        prop_assert_eq!(Span::parse(&span.write()), Ok(span));
        prop_assert_eq!(Rate::parse(&Rate::from_bps(bps).write()), Ok(Rate::from_bps(bps)));
        prop_assert_eq!(CellRate::parse(&CellRate(cells).write()), Ok(CellRate(cells)));
        prop_assert_eq!(ByteCount::parse(&ByteCount(bytes).write()), Ok(ByteCount(bytes)));
        for queue in [QueueSize::Cells(cells), QueueSize::Bytes(bytes), QueueSize::Time(span)] {
            prop_assert_eq!(QueueSize::parse(&queue.write()), Ok(queue));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = (Span::parse(&text), Rate::parse(&text), QueueSize::parse(&text), probability(&text));
    }
}
