from .catalogue import named as named
from .catalogue import questions as questions
from .catalogue import register as register
from .question import Column as Column
from .question import Question as Question
