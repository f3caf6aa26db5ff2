from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .jobs import sign_up


@csrf_exempt
@require_POST
def signup(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"account": sign_up(request.POST["email"]).pk}, status=201)
