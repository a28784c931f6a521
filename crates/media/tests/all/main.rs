//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod access_units;
mod advice;
mod browser;
mod closing;
mod codec_changes;
mod codecs;
mod common;
mod cut_frames;
mod ffmpeg;
mod field;
mod filter;
mod h264;
mod input_loss;
mod maps;
mod renditions;
mod replay;
mod rtp;
mod rtp_peers;
mod rtp_sources;
mod streams;
mod temporal;
mod ts;
mod ts_input;
