//! Stands for `source-site` in a build without the feature `etcd`: no other site is followed.
use crate::etcd::EtcdSettings;
use records::{Refused, WriteResult};
use server_status::SiteStatus;
use std::io;
use std::path::{Path, PathBuf};
use wire::NameBuf;
use zone_manager::{Answer, ZonePublisher};

pub const THREAD: &str = "sites";

pub fn folder(data_dir: &Path, _: &str) -> PathBuf {
    data_dir.to_owned()
}

#[derive(Clone, Debug)]
pub struct SiteSettings {
    pub name: String,
    pub location: Option<String>,
    pub zones: Vec<NameBuf>,
    pub quota: u64,
    pub etcd: EtcdSettings,
}

/// The sites that are followed: none.
pub enum Sites {}

impl Sites {
    pub fn start(_: Vec<SiteSettings>, _: &Path, _: &ZonePublisher, _: bool) -> io::Result<Self> {
        Err(io::Error::other(config::Feature::Etcd.absence("another site")))
    }

    pub fn status(&self) -> Vec<SiteStatus> {
        match *self {}
    }

    pub fn accept(&self, _: &str) -> Option<Answer<WriteResult, Refused>> {
        match *self {}
    }

    pub fn have_failed(&self) -> bool {
        match *self {}
    }

    pub fn close(&self) {
        match *self {}
    }

    pub fn open(&self) {
        match *self {}
    }

    pub fn stop(&self) {
        match *self {}
    }
}
