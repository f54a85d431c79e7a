//! Names of resources that only some machines have.

use std::fmt;

/// Something that a test needs and that only some machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `shared`: the folder `shared/` next to the checkout, with real data and more fixtures.
    Shared,
    /// `browser`: Chromium and `chromedriver`.
    Browser,
    /// `tensorboard`: Python with TensorBoard.
    TensorBoard,
    /// `nvrtc`: the CUDA run-time compiler.
    Nvrtc,
    /// `cuda`: a GPU with its driver.
    Cuda,
    /// `no-cuda`: a machine without a CUDA driver.
    NoCuda,
    /// `simd`: every instruction set that has kernels.
    Simd,
    /// `privileges`: the rights to mount a file system and to drop the superuser's rights.
    Privileges,
    /// `hostile`: the folder of Parquet files that `GT_HOSTILE` names.
    Hostile,
}

impl Resource {
    const ALL: [Self; 9] = [
        Self::Shared,
        Self::Browser,
        Self::TensorBoard,
        Self::Nvrtc,
        Self::Cuda,
        Self::NoCuda,
        Self::Simd,
        Self::Privileges,
        Self::Hostile,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Browser => "browser",
            Self::TensorBoard => "tensorboard",
            Self::Nvrtc => "nvrtc",
            Self::Cuda => "cuda",
            Self::NoCuda => "no-cuda",
            Self::Simd => "simd",
            Self::Privileges => "privileges",
            Self::Hostile => "hostile",
        }
    }

    /// The resources of a comma-separated list of names; the first unknown name is the error.
    pub(crate) fn parse_list(list: &str) -> Result<Vec<Self>, UnknownResource> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| Self::parse(name).ok_or_else(|| UnknownResource(name.to_owned()))).collect()
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no resource has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownResource(String);

impl fmt::Display for UnknownResource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = Resource::ALL.map(Resource::name).join(", ");
        write!(f, "there is no resource `{}`; use names out of {names}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_found_by_its_name() {
        let list = Resource::ALL.map(Resource::name).join(", ");
        assert_eq!(Resource::parse_list(&list), Ok(Resource::ALL.to_vec()));
        assert_eq!(Resource::parse_list(""), Ok(vec![]));
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert_eq!(Resource::parse_list("shared,chrome"), Err(UnknownResource("chrome".to_owned())));
    }
}
