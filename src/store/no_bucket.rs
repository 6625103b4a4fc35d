//! In place of [`super::bucket`], in a build without it: no store can be opened.

use super::marker::Marker;
use super::patience::Patience;
use anyhow::Result;
use fencepost_engine::refuse;
use std::path::Path;

/// There is none.
pub enum Bucket {}

impl Bucket {
    pub fn open(address: &str, _patience: Patience) -> Result<Bucket> {
        refuse!(
            "this build of Fencepost reads and writes no object store, so {address} is out of reach: use a released program, or build \
             it with `--features object-store`"
        )
    }

    pub async fn check_writable(&self) -> Result<()> {
        match *self {}
    }

    pub async fn send(&self, _folder: &Path, _name: &str) -> Result<bool> {
        match *self {}
    }

    pub async fn list(&self) -> Result<Vec<(String, Marker)>> {
        match *self {}
    }

    pub async fn own_marker(&self) -> Result<Option<Marker>> {
        match *self {}
    }

    pub async fn fetch(&self, _name: &str, _marker: &Marker, _folder: &Path) -> Result<()> {
        match *self {}
    }

    pub async fn remove(&self, _name: &str) -> Result<()> {
        match *self {}
    }
}
