#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layercast_fuzz::partial_order::partial_order(data));
