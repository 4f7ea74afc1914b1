from .catalogue import named as named
from .catalogue import questions as questions
from .catalogue import register as register
from .catalogue import restored as restored
from .question import Column as Column
from .question import Form as Form
from .question import Question as Question
