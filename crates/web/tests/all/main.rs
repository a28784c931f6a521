//! Pages, access, media for players over each transport, and Chromium with the page.

mod access;
mod browser;
mod counters;
mod media;
mod site;
mod transport;
