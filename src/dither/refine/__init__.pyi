from .auto import auto as auto
from .shrink import shrink as shrink
from .smooth import smooth as smooth
from .hdr4me import hdr4me as hdr4me
from .project import clip as clip
from .project import simplex as simplex
from .project import norm_sub as norm_sub
from .project import base_cut as base_cut
